// Package s3test gives tests a real S3 server.
package s3test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"landfall.dev/landfall/assets/s3"
	"landfall.dev/landfall/porttest"
)

// Bucket returns the address of an empty bucket on a real server (versitygw): the one that Share started, or else one
// that the first call in a test program starts and that ends with the program. The bucket itself is not made yet.
func Bucket(t testing.TB) s3.Config {
	t.Helper()
	c, _ := BucketInFolder(t)
	return c
}

// BucketInFolder is Bucket, and the folder in which the server keeps its objects, one file each.
func BucketInFolder(t testing.TB) (c s3.Config, folder string) {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	c = s3.Config{
		Endpoint: s.endpoint, Insecure: true, Region: "us-east-1", AccessKey: accessKey, SecretKey: secretKey,
		Bucket: "test-" + strings.ToLower(rand.Text()), Style: s3.PathStyle,
	}
	return c, filepath.Join(s.data, c.Bucket)
}

const (
	accessKey = "landfall"
	secretKey = "a secret of the tests"
)

// server is one S3 server of this test program.
type server struct {
	endpoint string
	data     string
	alive    io.Closer // open until the server must end, at the latest with this program
}

// These name the environment variables with the server that Share started, and its folder.
const (
	endpointVariable = "LANDFALL_TEST_S3_ENDPOINT"
	dataVariable     = "LANDFALL_TEST_S3_DATA"
)

var shared = sync.OnceValues(func() (*server, error) {
	if endpoint := os.Getenv(endpointVariable); endpoint != "" {
		return &server{endpoint: endpoint, data: os.Getenv(dataVariable)}, nil
	}
	return start()
})

// Share starts the server that Bucket uses in this program and in all programs that it starts, until end.
func Share() (end func(), err error) {
	s, err := start()
	if err != nil {
		return nil, err
	}
	end = func() { _ = s.alive.Close() }
	return end, errors.Join(os.Setenv(endpointVariable, s.endpoint), os.Setenv(dataVariable, s.data))
}

const (
	startPatience = time.Minute
	startPoll     = 20 * time.Millisecond
)

// serverScript runs a server until the program at the other end of its input ends in any way, and then removes the
// server and its folder.
const serverScript = `"$@" </dev/null >server.log 2>&1 & pid=$!; cat >rest; kill -KILL $pid; wait $pid; cd /; rm -rf "$0"`

func start() (s *server, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("the S3 server, which the tests need, did not start: %w", err)
		}
	}()
	dir, err := os.MkdirTemp("", "landfall-s3-")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	endpoint, err := freeAddress()
	if err != nil {
		return nil, err
	}
	alive, err := run(dir, endpoint, "build/bin/versitygw", "--access", accessKey, "--secret", secretKey,
		"--port", endpoint, "--quiet", "posix", data)
	return &server{endpoint: endpoint, data: data, alive: alive}, err
}

// run starts a program, which make test has built, in a folder that ends with it, and waits until it takes connections.
// The program ends when alive is closed.
func run(dir, endpoint, program string, args ...string) (alive io.Closer, err error) {
	path, err := find(program)
	if err != nil {
		return nil, err
	}
	serve := exec.CommandContext(context.Background(), "sh", append([]string{"-c", serverScript, dir, path}, args...)...)
	serve.Dir, serve.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	if alive, err = serve.StdinPipe(); err != nil {
		return nil, err
	}
	if err := serve.Start(); err != nil {
		return nil, err
	}
	for until := time.Now().Add(startPatience); ; {
		conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", endpoint)
		if err == nil {
			return alive, conn.Close()
		}
		if time.Now().After(until) {
			log, _ := os.ReadFile(filepath.Join(dir, "server.log"))
			return nil, fmt.Errorf("%w\n%s", err, log)
		}
		<-time.After(startPoll)
	}
}

// find finds a program below the module's folder.
func find(program string) (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			path := filepath.Join(folder, program)
			if _, err := os.Stat(path); err != nil {
				return "", errors.New(program + " is not there; type: make " + program)
			}
			return path, nil
		}
		if strings.HasSuffix(folder, "/") {
			return "", errors.New("not below a Go module")
		}
	}
}

// freeAddress returns an address for a server.
func freeAddress() (string, error) {
	port, err := porttest.Free()
	return net.JoinHostPort("127.0.0.1", port), err
}
