package site

import (
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall/assets/s3"
	"landfall.dev/landfall/assets/s3/s3test"
	"landfall.dev/landfall/store/storetest"
)

// Engine is what a server keeps its state and its objects in.
type Engine struct {
	Database string    // the address of a PostgreSQL database; empty: a file in the data folder
	Bucket   s3.Config // without an endpoint: a folder in the data folder
}

// The engines that tests run on. Each test has one of them, always the same; LANDFALL_TEST_ENGINE=postgres+s3 makes all
// run on that one.
const (
	EngineVariable = "LANDFALL_TEST_ENGINE"
	WithPostgres   = "postgres"
	WithS3         = "s3"
)

// NewEngine makes the engines that the test runs on.
func NewEngine(t testing.TB) Engine {
	t.Helper()
	names := []string{"sqlite+folder", WithPostgres + "+folder", "sqlite+" + WithS3, WithPostgres + "+" + WithS3}
	name := names[crc32.ChecksumIEEE([]byte(t.Name()))%uint32(len(names))]
	if only := os.Getenv(EngineVariable); only != "" {
		if !slices.Contains(names, only) {
			t.Fatalf("%s is %q; right would be one of %q", EngineVariable, only, names)
		}
		name = only
	}
	return EngineOf(t, name)
}

// EngineOf makes an engine of a name.
func EngineOf(t testing.TB, name string) Engine {
	t.Helper()
	var e Engine
	if strings.Contains(name, WithPostgres) {
		e.Database = storetest.Postgres(t)
	}
	if strings.Contains(name, WithS3) {
		e.Bucket = s3test.Bucket(t)
	}
	return e
}

// Settings are what the server is told.
func (e Engine) Settings() []string {
	var env []string
	if e.Database != "" {
		env = append(env, "LANDFALL_DATABASE="+e.Database)
	}
	if e.Bucket.Endpoint != "" {
		env = append(env, "LANDFALL_S3_ENDPOINT=http://"+e.Bucket.Endpoint, "LANDFALL_S3_BUCKET="+e.Bucket.Bucket,
			"LANDFALL_S3_STYLE=path", "LANDFALL_S3_ACCESS_KEY="+e.Bucket.AccessKey, "LANDFALL_S3_SECRET_KEY="+e.Bucket.SecretKey)
	}
	return env
}
