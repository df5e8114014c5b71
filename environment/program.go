package environment

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"landfall.dev/landfall/event"
)

// requestCommand takes the path of a file of the package, as Fission's binary environment does: the file is run for
// each request, whatever its mode. With draft: before it, it is a program like those of binaryCommand.
func requestCommand(p pack, entrypoint string) ([]string, event.Form, error) {
	if strings.HasPrefix(entrypoint, draftPrefix) {
		return binaryCommand(p, entrypoint)
	}
	file, err := requestFile(p, entrypoint)
	if err != nil {
		return nil, event.Structured, err
	}
	return []string{"python3", "-B", folder + "/exec.py", "--request", "./" + file}, event.Structured, nil
}

// requestFile returns the path of the file of an entry point. Without an entry point it is the only file of the
// package, or its main program.
func requestFile(p pack, entrypoint string) (string, error) {
	file := strings.TrimPrefix(entrypoint, plainPrefix)
	if file == "" {
		if files := p.top(p.has); len(files) == 1 {
			file = files[0]
		} else if main, err := mainProgram(p, entrypoint); err == nil {
			file = main
		}
	}
	file = path.Clean(file)
	switch {
	case file == ".":
		return "", invalid(entrypoint, "it says no program; write the path of one; the package has %s", p.listFiles(p.has))
	case !filepath.IsLocal(file):
		return "", invalid(entrypoint, "it is the path of a program in the package, like bin/hello")
	case !p.has(file):
		return "", invalid(entrypoint, "the package has no such file; it has %s", p.listFiles(p.has))
	}
	return file, nil
}

// eitherCommand is binaryCommand for programs that know CloudEvents, and requestCommand for others.
func eitherCommand(p pack, entrypoint string) ([]string, event.Form, error) {
	file, err := requestFile(p, entrypoint)
	switch {
	case err != nil || strings.HasPrefix(entrypoint, plainPrefix) || !p.knowsEvents():
		return requestCommand(p, entrypoint)
	case p.isExecutable(file):
		return binaryCommand(p, entrypoint)
	}
	return []string{"/bin/sh", "./" + file}, event.Structured, nil
}

// knowsEvents reports whether a file of an unpacked package contains the name of an attribute that every event has,
// because a program that answers with events writes it.
func (p pack) knowsEvents() bool {
	const most = 64 << 20 // bytes of all files together
	if p.fileSet != nil {
		return false
	}
	left, knows := int64(most), false
	// a file that cannot be read does not count
	_ = fs.WalkDir(p, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || left <= 0:
			return err
		case entry.IsDir() && name == folder:
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		file, err := p.Open(name)
		if err != nil {
			return nil
		}
		defer file.Close()
		text, err := io.ReadAll(io.LimitReader(file, left))
		left -= int64(len(text))
		if err == nil && (bytes.Contains(text, []byte("specversion")) ||
			bytes.Contains(text, []byte("cloud-events-version"))) {
			knows = true
			return fs.SkipAll
		}
		return nil
	})
	return knows
}
