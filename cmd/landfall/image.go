package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/runtime/images"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
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
		Find: source.imaged, Names: source.names, Builder: s.images, Logger: s.logger,
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

// imaged is find for an image, which a name must mean again and again: of an alias with weights it is the first version.
func (s tableSource) imaged(ctx context.Context, ref landfall.Reference) (images.Function, error) {
	alias, err := versioning.FindAlias(ctx, s.db, cmp.Or(ref.Namespace, landfall.DefaultNamespace), ref)
	if err == nil {
		ref.Selector = string(alias.Shares[0].UID)
	}
	return s.find(ctx, ref, "")
}

// names returns what the versions of a function are called.
func (s tableSource) names(ctx context.Context, namespace, name string) (images.Names, error) {
	var names images.Names
	err := s.db.Snapshot(ctx, func(at *store.Snapshot) error {
		row, err := at.UnitInNamespace(ctx, namespace, landfall.UnitID{Kind: landfall.FunctionUnit, Name: name})
		if err != nil {
			return err
		}
		versions, err := at.Versions(ctx, row.ID, true)
		if err != nil {
			return err
		}
		names.App = row.App
		for _, v := range slices.Backward(versions) {
			names.UIDs = append(names.UIDs, v.UID)
			if !v.Retired {
				names.Tags = append(names.Tags, string(v.UID), strconv.FormatInt(v.Number, 10), v.Label)
			}
		}
		aliases, err := at.Aliases(ctx, row.ID)
		if err != nil {
			return err
		}
		for _, alias := range aliases {
			names.Tags = append(names.Tags, alias.Name)
		}
		for pointer, number := range map[string]func(context.Context, string) (int64, error){
			landfall.Latest: at.LatestNumber, landfall.LivePointer: at.LiveNumber,
		} {
			_, err := number(ctx, row.ID)
			if err == nil {
				names.Tags = append(names.Tags, pointer)
			} else if landfall.KindOf(err) != landfall.NotFound {
				return fmt.Errorf("the %s version: %w", pointer, err)
			}
		}
		return nil
	})
	return names, err
}
