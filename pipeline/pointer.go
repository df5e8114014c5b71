package pipeline

import (
	"context"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
)

// fetchPointers fetches the files of Git LFS among those of the units that must be stored. It fails for a pointer that
// no attributes name: for that it reads the beginning of new files that are as small as a pointer, and no files that
// earlier versions have.
func (p plan) fetchPointers(ctx context.Context) error {
	read := map[string]bool{} // by blob
	var files []landfall.File // of Git LFS
	for _, u := range p.units {
		if u.Content == nil || p.current[u.Unit].content() != nil {
			continue
		}
		known, err := p.earlierManifestsOf(ctx, u.Unit)
		if err != nil {
			return err
		}
		for _, m := range known.all {
			for _, f := range m.Files() {
				read[f.Blob] = true
			}
		}
		for _, f := range p.filesOfUnit(u.Unit) {
			if f.LFS && !read[f.Blob] {
				files = append(files, f)
			}
			if read[f.Blob] || !builder.MayBePointer(f) {
				continue
			}
			read[f.Blob] = true
			r, err := p.mirror.Read(ctx, f)
			if err != nil {
				return err
			}
			if err := r.Close(); err != nil {
				return err
			}
		}
	}
	return p.mirror.FetchLFS(ctx, files)
}

// filesOfUnit returns the files of a static unit, or of a package's archives.
func (p plan) filesOfUnit(id landfall.UnitID) []landfall.File {
	var files []landfall.File
	for _, e := range p.statics[id].Entries {
		files = append(files, e.File)
	}
	for _, f := range p.packages[id].source {
		files = append(files, f.File)
	}
	for _, f := range p.packages[id].deployment {
		files = append(files, f.File)
	}
	return files
}
