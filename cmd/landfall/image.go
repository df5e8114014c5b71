package main

import (
	"context"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/runtime/images"
	"landfall.dev/landfall/store"
)

// imageFolder is where functions lie in their images: where the sandbox shows them, too.
const imageFolder = "function"

// image returns what the image of a function has: what runs here, where it runs here. It stays until the function that it returns is
// called.
func (h *functionHost) image(ctx context.Context, f *landfall.Function) (images.Content, func(), error) {
	u, err := h.unpack(ctx, f)
	if err != nil {
		return images.Content{}, nil, err
	}
	args, _, err := u.env.Portable(u.dir, f.Entrypoint)
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
	maps.Copy(variables, map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"})
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

// imageDoor is where functions are pulled as images.
func (s *server) imageDoor() http.Handler {
	source := s.source()
	return &images.Handler{
		Find: source.Image, Names: source.ImageNames, Builder: s.images, Logger: s.logger,
		Admit: func(r *http.Request, app *string) error {
			secret := auth.Password(r)
			if secret == "" {
				return &landfall.Error{Op: "images", Kind: landfall.Unauthorized, Message: "log in with any name and a token as the password"}
			}
			var f *landfall.Function
			if app != nil {
				f = &landfall.Function{App: *app}
			}
			return auth.MayUse(r.Context(), s.db, secret, store.ScopeRead, f)
		},
	}
}
