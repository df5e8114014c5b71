package assets

import (
	"strings"

	"landfall.dev/landfall"
)

// UploadPlan says which files of a unit travel, and where the others lie already.
type UploadPlan struct {
	prefix string
	files  []ManifestFile // what is not known before the upload is empty
	jobs   []job          // one for each content that has to be read
}

// job is one content that has to be read.
type job struct {
	file  landfall.File
	key   string // where it is stored; empty if it is there already, and read to learn its type
	users []int  // the files with this content; for a job without key, those that lack a type
}

// Plan compares a unit with manifests of earlier versions of its app. A file whose bytes one of them has, by git's
// blob name or by digest, is pointed to, wherever it was served; the others are to be stored below prefix (Prefix),
// the same bytes once. Manifests of other apps are not looked at. Plan reads nothing and is a pure function.
func Plan(unit Unit, prefix string, known ...*Manifest) UploadPlan {
	plan := UploadPlan{prefix: strings.TrimSuffix(prefix, "/") + "/", files: make([]ManifestFile, len(unit.Entries))}
	stored := storedContent(unit, plan.prefix, known)
	jobs := map[string]int{} // by content id
	for i, entry := range unit.Entries {
		file, id := &plan.files[i], entry.File.ContentID()
		if old, have := stored[id]; have {
			*file = old
			if typeByName(old.Path) != "" { // so the old type says nothing about the bytes
				file.Type = ""
			}
		}
		file.Path, file.Size, file.Blob = entry.Path, entry.File.Size, entry.File.Blob
		if named := typeByName(entry.Path); named != "" {
			file.Type = named
		}
		if file.Key != "" && file.Type != "" {
			continue
		}
		n, ok := jobs[id]
		if !ok {
			n = len(plan.jobs)
			jobs[id] = n
			plan.jobs = append(plan.jobs, job{file: entry.File})
			if file.Key == "" {
				plan.jobs[n].key = objectKey(plan.prefix, relative(unit.Rule.Path, entry.Path))
			}
		}
		plan.jobs[n].users = append(plan.jobs[n].users, i)
	}
	return plan
}

// storedContent returns by content id where the known manifests of the app have the unit's contents.
func storedContent(unit Unit, prefix string, known []*Manifest) map[string]ManifestFile {
	wanted := make(map[string]struct{}, len(unit.Entries))
	for _, entry := range unit.Entries {
		wanted[entry.File.ContentID()] = struct{}{}
	}
	stored := map[string]ManifestFile{}
	note := func(id string, file ManifestFile) {
		_, want := wanted[id]
		if _, have := stored[id]; want && !have {
			stored[id] = file
		}
	}
	for _, manifest := range known {
		for _, file := range manifest.Files() {
			if !sameApp(file.Prefix, prefix) {
				continue
			}
			note(landfall.File{Blob: file.Blob}.ContentID(), file)
			note(string(file.Digest), file)
		}
	}
	return stored
}

// Prefixes returns the prefixes that the manifest will point into, the version's own first. A run reserves them
// before it uploads.
func (p UploadPlan) Prefixes() []string {
	var reused []ManifestFile
	for _, file := range p.files {
		if file.Key != "" {
			reused = append(reused, file)
		}
	}
	return prefixes(p.prefix, reused)
}

// Uploads returns how many objects are to be stored, the manifest aside.
func (p UploadPlan) Uploads() int {
	n := 0
	for _, job := range p.jobs {
		if job.key != "" {
			n++
		}
	}
	return n
}

// Bytes returns the size of the objects that are to be stored, the manifest aside.
func (p UploadPlan) Bytes() int64 {
	var n int64
	for _, job := range p.jobs {
		if job.key != "" {
			n += job.file.Size
		}
	}
	return n
}
