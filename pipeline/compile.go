package pipeline

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/spec"
)

// entryFile is the file to which the entry point of a function leads.
type entryFile struct {
	function spec.Function
	env      environment.Environment
	path     string
	source   []byte
}

// compile fails for the first file that its interpreter cannot compile, with the line. It checks the files of one
// language together, in the sandbox. It checks nothing when commands cannot be confined here, or functions run
// elsewhere.
func (b builtPlan) compile(ctx context.Context, files []entryFile) error {
	var mine []entryFile
	var sources [][]byte
	for _, f := range files {
		if command, _ := f.env.Compile(nil); command != "" && f.source != nil {
			mine, sources = append(mine, f), append(sources, f.source)
		}
	}
	if len(mine) == 0 || b.HasFastAPI == nil { // the machine where functions run may have another interpreter
		return nil
	}
	command, content := mine[0].env.Compile(sources)
	printed, err := b.runAlone(ctx, command, content)
	if err != nil {
		return err
	}
	broken := environment.CompileErrors(printed)
	for i, f := range mine {
		if why, is := broken[i]; is {
			return landfall.Errorf("pipeline.build", landfall.Invalid, "%s: Function %s will not run: %s:%s", f.function.Pos,
				f.function.Name, f.path, why)
		}
	}
	return nil
}

// runAlone runs a command in the sandbox, without a network, in a folder with some files, and returns what it prints;
// empty when nothing can confine it here.
func (b builtPlan) runAlone(ctx context.Context, command string, files map[string][]byte) (printed string, err error) {
	dir := filepath.Join(b.Scratch, b.run.ID+"-compile")
	defer func() { _ = os.RemoveAll(dir) }() // the next start removes what is left
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return "", err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return "", err
		}
	}
	var output bytes.Buffer
	_, err = b.Sandbox.Build(ctx, BuildCommand{Shell: command, Dir: dir, Output: &output, Logger: b.logger})
	if landfall.Is(err, landfall.Forbidden) {
		return "", nil
	}
	return output.String(), err
}
