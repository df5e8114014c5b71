package landfall

// Finding is one thing that is damaged: what it is, where it is, and what to do about it.
type Finding struct {
	What     string `json:"what" doc:"database, rows, version, manifest, object, archive, repository, build or leftover"`
	App      string `json:"app,omitempty"`
	Releases []UID  `json:"releases,omitempty" doc:"accessible ones that need it"`
	Unit     string `json:"unit,omitempty"`
	Path     string `json:"path,omitempty" doc:"where a visitor would find it"`
	Key      string `json:"key,omitempty" doc:"of the object, or the folder of the repository"`
	Problem  string `json:"problem"`
	Remedy   string `json:"remedy"`
}

// Checked counts what a check looked at.
type Checked struct {
	Apps         int   `json:"apps"`
	Releases     int   `json:"releases"`
	Manifests    int   `json:"manifests"`
	Objects      int   `json:"objects"`
	Bytes        int64 `json:"bytes"`
	Repositories int   `json:"repositories"`
	Findings     int   `json:"findings"`
}
