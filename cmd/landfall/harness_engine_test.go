package main

import (
	"context"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/assets/disk"
	"landfall.dev/landfall/assets/s3"
	"landfall.dev/landfall/assets/s3/s3test"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
)

// engine is what a server keeps its state and its objects in.
type engine struct {
	database string    // the address of a PostgreSQL database; empty: a file in the data folder
	bucket   s3.Config // without an endpoint: a folder in the data folder
}

// The engines that tests run on. Each test has one of them, always the same; LANDFALL_TEST_ENGINE=postgres+s3 makes all run
// on that one.
const (
	engineVariable = "LANDFALL_TEST_ENGINE"
	withPostgres   = "postgres"
	withS3         = "s3"
)

func newEngine(t *testing.T) engine {
	t.Helper()
	names := []string{"sqlite+folder", withPostgres + "+folder", "sqlite+" + withS3, withPostgres + "+" + withS3}
	name := names[crc32.ChecksumIEEE([]byte(t.Name()))%uint32(len(names))]
	if only := os.Getenv(engineVariable); only != "" {
		if !slices.Contains(names, only) {
			t.Fatalf("%s is %q; right would be one of %q", engineVariable, only, names)
		}
		name = only
	}
	return engineOf(t, name)
}

// engineOf makes an engine of a name.
func engineOf(t *testing.T, name string) engine {
	t.Helper()
	var e engine
	if strings.Contains(name, withPostgres) {
		e.database = storetest.Postgres(t)
	}
	if strings.Contains(name, withS3) {
		e.bucket = s3test.Bucket(t)
	}
	return e
}

// settings are what the server is told.
func (e engine) settings() []string {
	var env []string
	if e.database != "" {
		env = append(env, "LANDFALL_DATABASE="+e.database)
	}
	if e.bucket.Endpoint != "" {
		env = append(env, "LANDFALL_S3_ENDPOINT=http://"+e.bucket.Endpoint, "LANDFALL_S3_BUCKET="+e.bucket.Bucket, "LANDFALL_S3_STYLE=path",
			"LANDFALL_S3_ACCESS_KEY="+e.bucket.AccessKey, "LANDFALL_S3_SECRET_KEY="+e.bucket.SecretKey)
	}
	return env
}

// openState opens a site's database. One in a file must not be in use.
func (s *site) openState() (*store.DB, error) {
	if s.engine.database != "" {
		return store.Open(context.Background(), s.engine.database)
	}
	return store.Open(context.Background(), filepath.Join(s.data, "landfall.db"))
}

// objects are the objects of a site, opened beside the server.
type objects interface {
	assets.Store
	io.Closer
}

// openObjects opens a site's objects.
func (s *site) openObjects() (objects, error) {
	if s.engine.bucket.Endpoint != "" {
		return s3.Open(context.Background(), s.engine.bucket)
	}
	return disk.Open(filepath.Join(s.data, "objects"))
}
