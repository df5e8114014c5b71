package assets

import (
	"strings"

	"landfall.dev/landfall"
)

// UploadPlan says which files of a unit must be uploaded, and where the others are already.
type UploadPlan struct {
	prefix string
	files  []ManifestFile // fields that are not known before the upload are empty
	jobs   []job          // one for each content that must be read
}

// job is one content that must be read.
type job struct {
	file  landfall.File
	key   string // where it will be stored; empty if it is stored already, and is read for its type only
	users []int  // the files with this content; for a job without key, those without a type
}

// Plan compares a unit with manifests of earlier versions of its app. If one of them has the bytes of a file, by git's
// blob name or by digest, the plan points to them, at whatever path they were served. The other files will be stored
// below prefix (Prefix), equal bytes once. Plan ignores manifests of other apps. It reads nothing and is a pure
// function.
func Plan(unit Unit, prefix string, known ...*Manifest) UploadPlan {
	plan := UploadPlan{prefix: strings.TrimSuffix(prefix, "/") + "/", files: make([]ManifestFile, len(unit.Entries))}
	stored := storedContent(unit, plan.prefix, known)
	jobs := map[string]int{} // by content id
	for i, entry := range unit.Entries {
		file, id := &plan.files[i], entry.File.ContentID()
		if old, have := stored[id]; have {
			*file = old
			if typeByName(old.Path) != "" { // the old type came from another name, and says nothing about the bytes
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

// storedContent returns where the known manifests of the app have the unit's contents, by content id.
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

// Prefixes returns the prefixes that the manifest will use, the version's own first. A run reserves them before it
// uploads.
func (p UploadPlan) Prefixes() []string {
	var reused []ManifestFile
	for _, file := range p.files {
		if file.Key != "" {
			reused = append(reused, file)
		}
	}
	return prefixes(p.prefix, reused)
}

// Uploads returns how many objects will be stored, without the manifest.
func (p UploadPlan) Uploads() int {
	n := 0
	for _, job := range p.jobs {
		if job.key != "" {
			n++
		}
	}
	return n
}

// Bytes returns the size of the objects that will be stored, without the manifest.
func (p UploadPlan) Bytes() int64 {
	var n int64
	for _, job := range p.jobs {
		if job.key != "" {
			n += job.file.Size
		}
	}
	return n
}
