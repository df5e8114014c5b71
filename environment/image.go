package environment

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment/container"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/spec"
)

// These are the files of an installed image.
const (
	imageRoot = folder + "/root"
	imageFile = folder + "/image.json"
)

// PullImage returns the image that an environment pulls from a registry for its functions, if the environment's name
// begins with container. It is empty for others, and when the package has the image.
func PullImage(name, image string) string {
	if !spec.OfContainers(name) || imageName.MatchString(lastElement(image)) {
		return ""
	}
	return image
}

// installImage unpacks the image in a package.
func installImage(ctx context.Context, dir, into string) error {
	image, err := container.Unpack(ctx, dir, filepath.Join(into, path.Base(imageRoot)), container.Limits{})
	if err != nil {
		return err
	}
	text, err := json.Marshal(image)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, imageFile), text, fileMode)
}

// Root is what a function that is an image sees in place of the server's programs and its package.
type Root struct {
	Folder string            // on this machine
	Dir    string            // the folder in which the function starts: a path in the root
	Env    map[string]string // variables of the image, which other variables of the function override
}

// Root returns the root of a function whose package is installed in dir; nil for a function that runs with the server's
// programs.
func (e Environment) Root(dir string) (*Root, error) {
	if e.install == nil {
		return nil, nil //nolint:nilnil // no root is no error: most functions run on the server's programs
	}
	image, err := readImage(pack{FS: os.DirFS(dir)})
	if err != nil {
		return nil, err
	}
	root := &Root{Folder: filepath.Join(dir, imageRoot), Dir: image.Dir, Env: map[string]string{}}
	for _, variable := range image.Env {
		if name, value, ok := strings.Cut(variable, "="); ok && name != "" {
			root.Env[name] = value
		}
	}
	return root, nil
}

func readImage(p pack) (container.Image, error) {
	var image container.Image
	text, err := fs.ReadFile(p, imageFile)
	if err == nil {
		err = json.Unmarshal(text, &image)
	}
	if err != nil {
		return image, landfall.Wrapf("environment.image", landfall.Internal, err, "an unpacked image cannot be read")
	}
	return image, nil
}

// containerCommand takes the command of the image; the words of an entry point replace its arguments, as words after
// the image's name do in docker run.
func containerCommand(p pack, entrypoint string) ([]string, event.Form, error) {
	form := event.Structured
	words, draft := strings.CutPrefix(entrypoint, draftPrefix)
	if draft {
		form = event.Draft
	}
	if strings.HasPrefix(words, plainPrefix) {
		return nil, form, invalid(entrypoint, "a program of an image reads events; %s is for programs of packages",
			plainPrefix)
	}
	image, err := readImage(p)
	if err != nil {
		return nil, form, err
	}
	args := strings.Fields(words)
	if len(args) == 0 {
		args = image.Cmd
	}
	args = append(append([]string{}, image.Entrypoint...), args...)
	if len(args) == 0 {
		return nil, form,
			invalid(entrypoint, "the image says neither ENTRYPOINT nor CMD; write the program and its arguments")
	}
	args[0], err = find(p, image, args[0])
	return args, form, err
}

// find returns the path of a program without one, found in the image's PATH.
func find(p pack, image container.Image, program string) (string, error) {
	if strings.Contains(program, "/") {
		return program, nil
	}
	search := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, variable := range image.Env {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok {
			search = value
		}
	}
	for dir := range strings.SplitSeq(search, ":") {
		file := path.Join("/", dir, program)
		info, err := fs.Lstat(p, imageRoot+file)
		if err == nil && !info.IsDir() {
			return file, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a link to another folder of the image
			return file, nil
		}
	}
	return "", invalid(program, "the image has no such program in its PATH, %s", search)
}
