// Command image writes a container image of the program as a file that docker, podman and skopeo load. It needs no
// daemon, no registry and no root, and the same program gives the same image.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	program := flag.String("program", "build/landfall", "the program, built without cgo, with landfall-init beside it")
	base := flag.String("base", "", "tar file of a root file system to put it on; none: the program alone")
	out := flag.String("o", "build/landfall-image.tar", "where the image is written")
	flag.Parse()
	digest, err := run(*program, *base, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stdout, "%s: landfall:latest, %s\n", *out, digest)
}

// run writes the image and returns its digest.
func run(program, base, out string) (digest string, err error) {
	image, err := newImage(program, base)
	if err != nil {
		return "", err
	}
	tag, err := name.NewTag("landfall:latest")
	if err != nil {
		return "", err
	}
	if err := tarball.WriteToFile(out, tag, image); err != nil {
		return "", err
	}
	hash, err := image.Digest()
	return hash.String(), err
}
