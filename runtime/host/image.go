package host

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/runtime/images"
)

// imageFolder is where functions lie in their images: where the sandbox shows them, too.
const imageFolder = "function"

// Image returns what the image of a function has: what runs here, where it runs here. It stays until the function that
// it returns is called. It runs nothing.
func (h *Host) Image(ctx context.Context, f *landfall.Function) (images.Content, func(), error) {
	u, err := h.unpack(ctx, f)
	if err != nil {
		return images.Content{}, nil, err
	}
	args, _, err := u.env.PortableCommand(u.dir, f.Entrypoint)
	if err != nil {
		h.opened(u.folder)
		return images.Content{}, nil, err
	}
	root, err := u.env.Root(u.dir)
	if err != nil {
		h.opened(u.folder)
		return images.Content{}, nil, err
	}
	dir := "/" + imageFolder
	if program, ok := strings.CutPrefix(args[0], "./"); (ok && root == nil) || u.env.Modules() {
		args[0] = path.Join(dir, program)
	}
	variables := identity(f)
	maps.Copy(variables, map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME": "/tmp", "LANG": "C.UTF-8"})
	content := images.Content{Folder: u.dir, At: imageFolder, Apart: environment.Folder(), Args: args, Dir: dir}
	if root != nil { // it was an image before
		content = images.Content{Folder: root.Folder, Args: args, Dir: root.Dir}
		maps.Copy(variables, root.Env)
		maps.Copy(variables, identity(f))
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		content.Env = append(content.Env, name+"="+variables[name])
	}
	return content, func() { h.opened(u.folder) }, nil
}
