package pipeline

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/download"
	"landfall.dev/landfall/preflight"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/unpack"
)

// archivePart says which archive of a package is meant.
type archivePart string

const (
	sourceArchive     archivePart = "source"
	deploymentArchive archivePart = "deployment"
)

func (a archivePart) of(pkg spec.Package) spec.ArchiveRef {
	if a == sourceArchive {
		return pkg.Source
	}
	return pkg.Deployment
}

// archiveID names an archive of a package.
type archiveID struct {
	pkg  string
	part archivePart
}

// archiveJob is an archive to bring.
type archiveJob struct {
	ref  spec.ArchiveRef
	name string // of the file, if it is one
	tars bool   // whether a tar is unpacked
	most int64  // bytes of its files
}

// fetchArchives brings the archives of packages that are at a URL or are literals, unpacked. What is at a URL is
// fetched once in a run; with a checksum never again while it is kept as what builds make. The error names file and
// line.
func (d draft) fetchArchives(ctx context.Context) (map[archiveID][]builder.ArchiveFile, error) {
	fetched, made := map[archiveID][]builder.ArchiveFile{}, map[landfall.Digest][]builder.ArchiveFile{}
	left := d.Mirrors.Limits.WithDefaults().CommitBytes
	for _, pkg := range d.spec.Packages {
		for _, part := range []archivePart{sourceArchive, deploymentArchive} {
			ref := part.of(pkg)
			if ref.URL == "" && ref.Literal == nil {
				continue
			}
			job := d.jobOf(pkg, ref, left)
			files, known := made[job.key]
			var err error
			if !known {
				files, err = d.fetchArchive(ctx, job)
			}
			if err != nil {
				return nil, notFetched(fmt.Sprintf("%s: Package %s: %s", ref.Pos, pkg.Name, part), err)
			}
			for _, f := range files {
				left -= f.File.Size
			}
			if left < 0 {
				return nil, landfall.Errorf("pipeline.fetchArchives", landfall.Invalid, "%s: Package %s: the archives that are "+
					"fetched have more than %d bytes together (LANDFALL_MAX_COMMIT_BYTES)", ref.Pos, pkg.Name,
					d.Mirrors.Limits.WithDefaults().CommitBytes)
			}
			made[job.key], fetched[archiveID{pkg.Name, part}] = files, files
		}
	}
	return fetched, nil
}

// notFetched is the error when an archive that is written at a place cannot be fetched. Who wrote it is at fault, also
// for an address of this network.
func notFetched(where string, err error) error {
	kind := landfall.KindOf(err)
	switch kind { //nolint:exhaustive // the others say where the fault is
	case landfall.Internal, landfall.Canceled:
		return err
	case landfall.Forbidden:
		kind = landfall.Invalid
	}
	return landfall.Wrapf("pipeline.fetchArchives", kind, err, "%s: %s", where, landfall.MessageOf(err))
}

// jobOf returns the job that brings an archive whose files have at most so many bytes.
func (d draft) jobOf(pkg spec.Package, ref spec.ArchiveRef, most int64) buildJob {
	name, images := d.fileOf(pkg, ref)
	job := buildJob{what: "the literal", outputs: []string{artifact.Folder},
		archive: &archiveJob{ref: ref, name: name, tars: !images, most: most}}
	if ref.URL != "" {
		job.what = download.File{URL: ref.URL}.String()
	}
	covers := map[string]string{"url": ref.URL, "literal": string(landfall.DigestOf(ref.Literal)),
		"digest": string(ref.Checksum), "name": name, "tars": strconv.FormatBool(!images)}
	if ref.URL != "" && ref.Checksum == "" {
		covers["run"] = d.run.ID // another run may find other bytes
	}
	job.command, job.env = "fetch", covers
	job.key = job.digest(nil)
	return job
}

// fileOf returns the name of an archive that is one file, and whether it is for an environment of images, which are
// tars themselves. A literal has the usual name of its environment: of the package's, or else of the first function's.
func (d draft) fileOf(pkg spec.Package, ref spec.ArchiveRef) (name string, images bool) {
	named := pkg.Environment
	for _, f := range d.spec.Functions {
		if named == "" && f.Package == pkg.Name {
			named = f.Environment
		}
	}
	env, _ := preflight.EnvironmentOf(d.spec, named) // where it is not known, the name does not matter
	if u, err := url.Parse(ref.URL); err == nil && !strings.HasSuffix(u.Path, "/") {
		name = path.Base(u.Path)
	}
	odd := func(r rune) bool { return unicode.IsControl(r) || r == '\\' || r == unicode.ReplacementChar }
	const longest = 255 // bytes that a file system takes
	if strings.HasPrefix(name, ".") || name == "" || len(name) > longest || strings.ContainsFunc(name, odd) {
		name = env.File()
	}
	return name, env.Images()
}

// fetchArchive returns the files of an archive.
func (d draft) fetchArchive(ctx context.Context, job buildJob) ([]builder.ArchiveFile, error) {
	made, err := d.runBuild(ctx, job)
	if err != nil {
		return nil, err
	}
	return artifact.Deployed(job.what, made)
}

// bring fetches an archive, and unpacks it to where a build would have left its files.
func (d draft) bring(ctx context.Context, dir string, job buildJob) error {
	packed, err := os.OpenFile(filepath.Join(dir, "archive"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer packed.Close()
	a := job.archive
	if a.ref.URL == "" {
		err = a.write(packed)
	} else {
		d.logNow(ctx, append(d.takeLog(), "fetching "+job.what)...)
		err = download.Get(ctx, d.Mirrors.Dialer, download.File{URL: a.ref.URL, Digest: a.ref.Checksum,
			MaxBytes: d.Mirrors.Limits.WithDefaults().FileBytes}, packed)
	}
	if err != nil {
		return err
	}
	into := filepath.Join(dir, artifact.Folder)
	if err := os.Mkdir(into, 0o700); err != nil {
		return err
	}
	return artifact.Unpack(into, a.name, job.what, packed, a.tars,
		unpack.Limits{Files: artifact.MaxFiles, Bytes: min(artifact.MaxBytes, a.most)})
}

// write writes a literal, which must have the digest that its package says.
func (a archiveJob) write(to *os.File) error {
	if digest := landfall.DigestOf(a.ref.Literal); a.ref.Checksum != "" && digest != a.ref.Checksum {
		return landfall.Errorf("pipeline.bring", landfall.Invalid, "the literal has the digest %s, not %s: correct "+
			"checksum.sum, or the literal", digest, a.ref.Checksum)
	}
	_, err := to.Write(a.ref.Literal)
	return err
}
