package bench_test

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"landfall.dev/landfall/assets/s3"
	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// minIO is an S3 server with no buckets.
type minIO struct{ web }

const (
	accessKey = "landfall"
	secretKey = "a-secret-of-the-benchmarks"
)

// newMinIO starts MinIO, which make bench has installed.
func newMinIO(b *testing.B) *minIO {
	b.Helper()
	program, err := filepath.Abs(filepath.Join(module, "build/bin/minio"))
	if err != nil {
		b.Fatal(err)
	}
	m := &minIO{web: web{name: "MinIO", port: site.FreePort(b)}}
	cmd := onCore("", program, "server", "--quiet", "--address", "127.0.0.1:"+m.port, b.TempDir())
	cmd.Env = site.Environ("MINIO_ROOT_USER="+accessKey, "MINIO_ROOT_PASSWORD="+secretKey, "MINIO_BROWSER=off",
		"MINIO_UPDATE=off", "MINIO_CI_CD=1")
	m.start(b, cmd)
	testkit.Eventually(b, "MinIO is ready", func() bool {
		resp, err := http.Get("http://127.0.0.1:" + m.port + "/minio/health/ready")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return m
}

// open opens a bucket of the server, which is made when missing.
func (m *minIO) open(b *testing.B, bucket string) *counter {
	b.Helper()
	store, err := s3.Open(b.Context(), m.config(bucket))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	return &counter{Store: store}
}

// settings are a server's that keeps its objects here.
func (m *minIO) settings() []string {
	return []string{"LANDFALL_S3_ENDPOINT=127.0.0.1:" + m.port, "LANDFALL_S3_INSECURE=true", "LANDFALL_S3_STYLE=path",
		"LANDFALL_S3_ACCESS_KEY=" + accessKey, "LANDFALL_S3_SECRET_KEY=" + secretKey}
}

// rclone brings a folder to a bucket, comparing sums and listing each bucket once.
func (m *minIO) rclone(b *testing.B, from, bucket string) {
	b.Helper()
	to := fmt.Sprintf(":s3,provider=Minio,access_key_id=%s,secret_access_key=%s,endpoint=\"http://127.0.0.1:%s\":%s",
		accessKey, secretKey, m.port, bucket)
	run(b, "", "rclone", "sync", checksum, "--fast-list", from, to)
}

// mc runs MinIO's own client, which make bench has installed; the server's name is "here".
func (m *minIO) mc(b *testing.B, args ...string) string {
	b.Helper()
	program, err := filepath.Abs(filepath.Join(module, "build/bin/mc"))
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = site.Environ(fmt.Sprintf("MC_HOST_here=http://%s:%s@127.0.0.1:%s", accessKey, secretKey, m.port),
		"MC_CONFIG_DIR="+b.TempDir())
	text, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("mc %s: %v\n%s", args[0], err, text)
	}
	return string(text)
}

// mirror brings a folder to a bucket with mc.
func (m *minIO) mirror(b *testing.B, from, bucket string) {
	b.Helper()
	m.mc(b, "mirror", "--quiet", "--overwrite", "--remove", from, "here/"+bucket)
}

// read returns what a bucket has at a path.
func (m *minIO) read(b *testing.B, bucket string) func(path string) []byte {
	store, err := minio.New("127.0.0.1:"+m.port, &minio.Options{Creds: credentials.NewStaticV4(accessKey, secretKey, "")})
	if err != nil {
		b.Fatal(err)
	}
	return func(path string) []byte {
		object, err := store.GetObject(b.Context(), bucket, strings.TrimPrefix(path, "/"), minio.GetObjectOptions{})
		if err != nil {
			b.Fatal(err)
		}
		defer object.Close()
		data, err := io.ReadAll(object)
		if err != nil {
			b.Fatal(err)
		}
		return data
	}
}

// installed returns the version of a program that make bench has installed.
func installed(b *testing.B, name string) string {
	b.Helper()
	info, err := buildinfo.ReadFile(filepath.Join(module, "build/bin", name))
	if err != nil {
		b.Fatal(err)
	}
	return info.Main.Version
}

// some returns one of a hundred.
func some(all []int) []int {
	var few []int
	for i := 0; i < len(all); i += 100 {
		few = append(few, all[i])
	}
	return few
}

// BenchmarkP6Bucket is BenchmarkP6 with an object store: MinIO.
func BenchmarkP6Bucket(b *testing.B) {
	m := newMinIO(b)
	work := newWorkTree(b, siteFiles)
	bare := work.newBare("origin")
	commit := work.push()
	const listed, mirror = "rclone sync " + checksum + " --fast-list", "mc mirror"
	first := table.Row(bench.Row{Figure: "P6 first upload of 10,000 files to S3", Unit: "ms", Peer: listed, Target: 0.75})
	mirrored := table.Row(bench.Row{Figure: "P6 first upload of 10,000 files to S3", Unit: "ms", Peer: mirror})
	beside := table.Row(bench.Row{Figure: "P6 upload of 100 of 10,000 files to S3", Unit: "ms", Peer: listed})
	short := table.Row(bench.Row{Figure: "P6 upload of 100 of 10,000 files to S3", Unit: "ms", Peer: mirror, Floor: 0.5,
		Target: 0.15})

	source := filepath.Join(work.Dir, "site")
	store := m.open(b, "landfall")
	key, _ := work.uploaded(store, bare, commit, "", work.all())
	for _, bucket := range []string{"listed", "mirrored"} {
		m.mc(b, "mb", "here/"+bucket)
	}
	m.rclone(b, source, "listed")
	m.mirror(b, source, "mirrored")
	for round := 0; b.Loop(); round++ {
		_, ours := work.uploaded(m.open(b, fmt.Sprint("landfall", round)), bare, commit, "", work.all())
		empty, other := fmt.Sprint("listed", round), fmt.Sprint("mirrored", round)
		m.mc(b, "mb", "here/"+empty, "here/"+other)
		first.Add(ours, timed(func() { m.rclone(b, source, empty) }))
		mirrored.Add(ours, timed(func() { m.mirror(b, source, other) }))
		work.check(some(work.all()), m.read(b, empty))
		work.check(some(work.all()), m.read(b, other))

		changed := work.changeSome()
		commit = work.push()
		key, ours = work.uploaded(store, bare, commit, key, changed)
		beside.Add(ours, timed(func() { m.rclone(b, source, "listed") }))
		short.Add(ours, timed(func() { m.mirror(b, source, "mirrored") }))
		work.check(some(changed), m.read(b, "listed"))
		work.check(some(changed), m.read(b, "mirrored"))
	}
	table.Notef("S3: MinIO %s; mc %s.", installed(b, "minio"), installed(b, "mc"))
	summarize(b, short)
}

// BenchmarkP5Bucket is BenchmarkP5 with an object store. A script's files are live when they are in the bucket.
func BenchmarkP5Bucket(b *testing.B) {
	m := newMinIO(b)
	s := newServer(b, "", m.settings()...)
	work := newWorkTree(b, siteFiles)
	work.Git("remote", "add", "landfall", s.Remote(s.App("bench")))
	tuned := newScript(b, work)
	plain := work.newBare("plain")
	const figure = "P5 push of 100 of 10,000 files, until live, S3"
	live := table.Row(bench.Row{Figure: figure, Unit: "ms",
		Peer: "git push, git pull, rclone sync " + checksum + " --fast-list", Floor: 0.5, Target: 0.25})
	naive := table.Row(bench.Row{Figure: figure, Unit: "ms", Peer: "git push, git clone --depth 1, mc mirror",
		Target: 0.03})
	for _, bucket := range []string{"tuned", "plain"} {
		m.mc(b, "mb", "here/"+bucket)
	}
	pull := func() {
		work.Git("push", "--quiet", "script", "main")
		run(b, tuned.pulled, "git", "pull", "--quiet", "--ff-only", "origin", "main")
		m.rclone(b, filepath.Join(tuned.pulled, "site"), "tuned")
	}
	clone := func() {
		work.Git("push", "--quiet", "plain", "main")
		fresh := filepath.Join(b.TempDir(), "clone")
		run(b, "", "git", "clone", "--quiet", "--depth", "1", "file://"+plain, fresh)
		m.mirror(b, filepath.Join(fresh, "site"), "plain")
	}
	work.commit()
	s.pushUntilLive(work, work.all())
	pull()
	clone()
	for b.Loop() {
		changed := work.changeSome()
		commit := work.commit()
		s.settled()
		ours, _ := s.pushUntilLive(work, changed)
		s.finished("bench", commit)
		s.settled()
		live.Add(ours, timed(pull))
		naive.Add(ours, timed(clone))
		work.check(some(changed), m.read(b, "tuned"))
		work.check(some(changed), m.read(b, "plain"))
	}
	summarize(b, live)
}

// config returns how a bucket of the server is reached.
func (m *minIO) config(bucket string) s3.Config {
	return s3.Config{
		Endpoint: "127.0.0.1:" + m.port, Insecure: true, Region: "us-east-1", AccessKey: accessKey, SecretKey: secretKey,
		Bucket: bucket, Style: s3.PathStyle,
	}
}
