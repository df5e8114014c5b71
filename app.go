package landfall

import (
	"cmp"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// DefaultNamespace always exists.
const DefaultNamespace = "default"

// AppChange is a change in what gateways show of an app. Numbers ascend by one in the order of commits.
type AppChange struct {
	Number int64
	App    string // its id
}

// App is what one repository, or one folder of it, describes.
type App struct {
	ID        string    // random and never reused, so a new app with the name of a deleted one cannot reach its content
	Namespace string    // owns the app's functions and packages
	Name      string    // unique on the installation; its host name
	Created   time.Time //
	Deleted   time.Time // zero while the app lives; the name stays reserved afterwards
	Removed   time.Time // when the content of a deleted app was removed; zero while it is there

	Repository string // clone address; empty: the built-in remote is the repository
	Specs      string // folder of the spec files, relative to Folder
	Folder     string // the app's folder in its repository; empty: the root

	// Objects is the folder of the object store where the app's content lies, with a slash at its end. Nothing of
	// another app is in it, and nothing of an earlier app with the same name.
	Objects string

	// Branch is the production branch. It is empty until it is known: set by hand, by the repository's HEAD, by the
	// first branch pushed to the built-in remote, or by a commit of the production branch (ReleasePolicy.Production).
	Branch string
	// BranchFound says that Branch was found as the default branch of the repository, and that nobody chose it.
	BranchFound bool
	Policy      ReleasePolicy // as the newest release of the production branch says

	Previews Previews // who sees releases that are not live

	// KeepFiles applies when Policy says nothing about it.
	KeepFiles Age

	Live UID  // the live release; empty when there is none
	Held bool // live does not follow pushes until it is resumed or a release is promoted

	// UIDSpace is the name space in which the UIDs of the app's commits are computed (version 5 UUIDs). It is made with
	// the app.
	UIDSpace uuid.UUID

	// GitHub is the forge's own identity of the repository. The first verified delivery binds it. It is confirmed once
	// the installation's hook has named it, because the app's people can invent what the app's own hook says.
	GitHub          GitHubRepository
	GitHubConfirmed bool

	// MovedTo is where the repository was transferred to, as OWNER/NAME, until a person confirms that the app follows it;
	// empty: nowhere. Meanwhile nothing of the repository runs: its new owner may be anybody.
	MovedTo string

	// Gone is when the forge said that the repository was deleted, until a person confirms that it is there again.
	// Meanwhile nothing of it runs: somebody may make another one at its address.
	Gone time.Time

	// Changed is the number of the newest change in what gateways show of the app. The store counts the changes.
	Changed int64
}

// Stopped reports whether nothing of the app's repository runs before a person has confirmed something.
func (a App) Stopped() bool { return a.MovedTo != "" || !a.Gone.IsZero() }

// OfNamespace reports whether an app is that of its namespace: it owns the functions and packages that people make by
// hand, and has no releases.
func (a App) OfNamespace() bool { return a.Name == a.Namespace }

// Previews says who sees an app's releases that are not live.
type Previews string

// The values of Previews.
const (
	PreviewsPublic Previews = "" // everybody
	// PreviewsSignedIn is people who are signed in at the control host, or have a token, and may read the app.
	PreviewsSignedIn Previews = "signed-in"
)

// GitHubRepository is a repository as GitHub names it.
type GitHubRepository struct {
	ID    int64 // numeric, survives renames; 0 while unbound
	Owner string
	Name  string
}

// RepositoryProblem is why the repository of an app could not be looked at.
type RepositoryProblem struct {
	Problem string
	Since   time.Time
}

// Title returns the repository for people. Two repositories with the same name differ by their id.
func (r GitHubRepository) Title() string { return fmt.Sprintf("%s/%s (id %d)", r.Owner, r.Name, r.ID) }

// LivePolicy says what a push to the production branch does to the live release.
type LivePolicy string

// The policies.
const (
	LiveAuto   LivePolicy = "auto"   // the release becomes live
	LiveManual LivePolicy = "manual" // the release is made and waits
)

// ReleasePolicy is what an App document says under "release".
type ReleasePolicy struct {
	Production string     `json:"production,omitempty"` // the production branch; empty: unchanged
	Live       LivePolicy `json:"live,omitempty"`       // empty: auto
	Keep       int        `json:"keep,omitempty"`       // accessible releases of each line; 0: the default of 10
	Branches   []string   `json:"branches,omitempty"`   // globs of the branches that get releases; empty: every branch
	SkipPaths  []string   `json:"skip_paths,omitempty"` // globs; a push that changes only these is skipped

	// KeepFiles says how long after a release was live its files are still served, for pages that are open. They are
	// served where the live release has no such file.
	KeepFiles Age `json:"keep_files,omitempty"`
}

// DefaultKeepFiles applies when neither an app nor its policy says how long files are kept.
const DefaultKeepFiles Age = "24h"

// FileRetention returns how long the files of a release are served after it was live; 0: never.
func (a App) FileRetention() Age { return cmp.Or(a.Policy.KeepFiles, a.KeepFiles, DefaultKeepFiles) }

// Keep limits.
const (
	DefaultKeep = 10
	MinKeep     = 2
)

// KeepOrDefault returns how many releases of each line stay accessible.
func (p ReleasePolicy) KeepOrDefault() int {
	if p.Keep == 0 {
		return DefaultKeep
	}
	return max(p.Keep, MinKeep)
}
