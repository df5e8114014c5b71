package client

import (
	"encoding/json"
	"time"

	"landfall.dev/landfall"
)

// Status is what a server says of itself.
type Status struct {
	URL     string   `json:"url" doc:"public URL of the server"`
	Domain  string   `json:"domain" doc:"base domain of releases"`
	Roles   []string `json:"roles,omitempty" doc:"roles of the process that answers, when it is not the whole server"`
	Sandbox string   `json:"sandbox" doc:"what build commands and functions run in"`
	Network string   `json:"functions_network,omitempty" doc:"which network functions get that run in this process"`
	Proxy   string   `json:"proxy,omitempty" doc:"the proxy that leads out of the server's network, without its password"`
	Lacks   []string `json:"sandbox_lacks,omitempty" doc:"what this machine lacks for the sandbox; it confines all the same, unless it is none"`
	Remote  bool     `json:"remote" doc:"whether the built-in git remote is on"`
	Waiting bool     `json:"waiting_for_worker,omitempty" doc:"whether runs wait because no pipeline worker is alive"`
	// Problems are what /readyz says, too.
	Problems []string `json:"problems,omitempty" doc:"what of the server does not work now: its objects, its repositories, its disk"`

	Apps   int       `json:"apps"`
	Token  string    `json:"token" doc:"name of the token that asked"`
	Scope  string    `json:"scope" doc:"scope of the token that asked"`
	Oldest time.Time `json:"oldest_unfinished,omitzero" doc:"when the oldest unfinished run was made"`
}

// NewApp asks for an app.
type NewApp struct {
	Name       string `json:"name" minLength:"3" maxLength:"40" example:"shop"`
	Namespace  string `json:"namespace,omitempty" doc:"default: default"`
	Repository string `json:"repository,omitempty" doc:"clone address, or OWNER/NAME of a repository that the GitHub App reaches; empty: the built-in remote is the repository"`
	Branch     string `json:"branch,omitempty" doc:"production branch; empty: the remote's HEAD, or the first branch pushed"`
	Specs      string `json:"specs,omitempty" doc:"folder of the spec files; empty: specs"`
	Folder     string `json:"folder,omitempty" doc:"the app's folder in its repository; empty: the root"`
	Previews   string `json:"previews,omitempty" enum:"public,signed-in" doc:"who sees releases that are not live; default: public"`
	Username   string `json:"username,omitempty" doc:"user name for the repository"`
	Password   string `json:"password,omitempty" doc:"password or token for the repository; it is never shown again"`
	// HostKeys are for a repository that is read by ssh, whose deploy key is made with the app.
	HostKeys []string `json:"host_keys,omitempty" doc:"keys that the host for ssh may have, as ssh-keyscan prints them; GitHub's are built in"`
}

// Credentials are how an app's repository is reached from now on.
type Credentials struct {
	Username *string `json:"username,omitempty" doc:"user name for the repository; without it the name stays"`
	Password string  `json:"password" minLength:"1" doc:"password or token for the repository; it is never shown again"`
}

// Repository is the new place of an app's repository, which was transferred there.
type Repository struct {
	Repository string `json:"repository" doc:"OWNER/NAME"`
}

// Branch is an app's production branch from now on.
type Branch struct {
	Branch string `json:"branch" minLength:"1" doc:"name of the branch, without refs/heads/"`
}

// Previews are who sees an app's releases from now on that are not live.
type Previews struct {
	Previews string `json:"previews" enum:"public,signed-in" doc:"signed-in: who is signed in at the control host or sends a token, and may read the app"`
}

// KeepFiles is for how long from now on files of an app's releases are served that were live.
type KeepFiles struct {
	KeepFiles landfall.Age `json:"keep_files" doc:"such as 24h or 7d; 0: never; release.keep_files in the spec goes before"`
}

// App is an app.
type App struct {
	ID         string                 `json:"id"`
	Namespace  string                 `json:"namespace"`
	Name       string                 `json:"name"`
	Repository string                 `json:"repository" doc:"clone address; for the built-in remote, the address to push to"`
	BuiltIn    bool                   `json:"built_in"`
	Branch     string                 `json:"branch"`
	Specs      string                 `json:"specs"`
	Folder     string                 `json:"folder,omitempty"`
	Policy     landfall.ReleasePolicy `json:"release"`
	Previews   string                 `json:"previews" enum:"public,signed-in" doc:"who sees releases that are not live"`
	KeepFiles  landfall.Age           `json:"keep_files" doc:"for how long after a release was live open pages get its files; 0: never"`
	Live       landfall.UID           `json:"live"`
	Held       bool                   `json:"held"`
	Previous   landfall.UID           `json:"previous,omitempty" doc:"what a rollback would make live; where one app is shown"`
	URL        string                 `json:"url" doc:"where the live release answers"`
	Created    time.Time              `json:"created"`
	Deleted    time.Time              `json:"deleted,omitzero"`
	Hook       *Hook                  `json:"hook,omitempty" doc:"the webhook for its repository; where one app is shown"`
	TokenSet   time.Time              `json:"repository_token_set,omitzero" doc:"when the password or token for its repository was stored; where one app is shown"`
	GitHubApp  bool                   `json:"github_app,omitempty" doc:"its repository is reached as the GitHub App; where one app is shown"`
	DeployKey  *DeployKey             `json:"deploy_key,omitempty" doc:"by which its repository is read by ssh; where one app is shown"`
	Notes      []string               `json:"notes,omitempty" doc:"in the answer to a move of live: which triggers lead nowhere"`
	Problems   []string               `json:"problems,omitempty" doc:"what hinders us at its repository; where one app is shown"`
}

// Hook is the webhook that was made for one repository.
type Hook struct {
	URL    string `json:"url"`
	Secret string `json:"secret,omitempty" doc:"shown once: in the answer that made it"`

	Made     bool      `json:"made,omitempty" doc:"it was made at the forge by this server, which looks after it"`
	Looked   time.Time `json:"looked,omitzero" doc:"when it was last found at the forge as it has to be"`
	Problem  string    `json:"problem,omitempty" doc:"what is wrong with it at the forge, and what to do"`
	Mended   string    `json:"mended,omitempty" doc:"what was wrong with it at the forge, and was mended last"`
	MendedAt time.Time `json:"mended_at,omitzero" doc:"when"`
}

// Run is one passage of one commit through the pipeline.
type Run struct {
	ID         string             `json:"id"`
	App        string             `json:"app"`
	Commit     landfall.CommitSHA `json:"commit"`
	Branch     string             `json:"branch"`
	State      landfall.RunState  `json:"state"`
	Step       landfall.Step      `json:"step"`
	Reason     string             `json:"reason"`
	UID        landfall.UID       `json:"uid" doc:"reserved from the start: the release's address is known before the build"`
	Release    landfall.UID       `json:"release"`
	URL        string             `json:"url,omitempty" doc:"where the release answers, or will when the run is over; absent when it ended without one"`
	Created    time.Time          `json:"created"`
	Started    time.Time          `json:"started,omitzero"`
	Finished   time.Time          `json:"finished,omitzero"`
	Stats      landfall.RunStats  `json:"stats"`
	Fork       int                `json:"fork,omitempty" doc:"the number of the pull request of another repository to which the commit belongs"`
	Approval   *landfall.Approval `json:"approval,omitempty" doc:"of a fork's commit: who let it be built, and how"`
	Steps      []Step             `json:"steps,omitempty"`
	Changes    []Change           `json:"changes,omitempty"`
	Statuses   []CommitStatus     `json:"statuses,omitempty" doc:"what the forge was told, or is owed"`
	References []string           `json:"references,omitempty" doc:"the references that want it"`
}

// Decline says why a fork's commit is not built.
type Decline struct {
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// Step is one execution of one step.
type Step struct {
	Step     landfall.Step `json:"step"`
	Attempt  int64         `json:"attempt"`
	Started  time.Time     `json:"started"`
	Finished time.Time     `json:"finished,omitzero"`
	Message  string        `json:"message,omitempty"`
}

// Change is one line of a diff.
type Change = landfall.UnitChange

// CommitStatus is one report to the forge.
type CommitStatus struct {
	State       landfall.StatusState `json:"state"`
	Context     string               `json:"context"`
	Description string               `json:"description"`
	Target      string               `json:"target"`
	Sent        time.Time            `json:"sent,omitzero"`
	Problem     string               `json:"problem,omitempty"`
}

// Group is a group version, one line of an app's history.
type Group struct {
	UID     landfall.UID       `json:"uid"`
	Created time.Time          `json:"created"`
	Commit  landfall.CommitSHA `json:"commit"`
	Branch  string             `json:"branch"`
	Clean   bool               `json:"clean"`
	Message string             `json:"message"`
	Actor   string             `json:"actor"`
	Digest  landfall.Digest    `json:"digest"`
	Release bool               `json:"release" doc:"whether it was ever reachable"`
	Expired bool               `json:"expired"`
	Latest  bool               `json:"latest"`
	Tags    []string           `json:"tags" doc:"tags that name its release, live included"`
}

// Release is a release.
type Release struct {
	ID      landfall.UID         `json:"id"`
	App     string               `json:"app"`
	Line    landfall.Line        `json:"line"`
	Commit  landfall.CommitSHA   `json:"commit"`
	Branch  string               `json:"branch"`
	Digest  landfall.Digest      `json:"digest"`
	Created time.Time            `json:"created"`
	Expired time.Time            `json:"expired,omitzero"`
	Live    bool                 `json:"live"`
	Latest  bool                 `json:"latest"`
	Tags    []string             `json:"tags"`
	URL     string               `json:"url"`
	Kept    *Kept                `json:"kept,omitempty" doc:"why it is accessible, where releases are listed"`
	Message string               `json:"message,omitempty" doc:"where one release is shown, as the units are"`
	Actor   string               `json:"actor,omitempty"`
	Units   []landfall.GroupUnit `json:"units,omitempty"`
}

// Imported is a release that was made of an archive.
type Imported struct {
	Release Release  `json:"release"`
	From    string   `json:"from" doc:"the app that it was exported of"`
	Notes   []string `json:"notes" doc:"what else happened"`
}

// Kept says why a release is accessible, and what of the object store is its own.
type Kept struct {
	By     []string `json:"by" doc:"what holds it: live, live before, a tag, or that it is the newest; empty: nothing"`
	After  *int     `json:"after,omitempty" doc:"it expires when more than so many newer ones of its line were made"`
	Own    int64    `json:"own" doc:"bytes in the object store that no other accessible release uses"`
	Shared int64    `json:"shared" doc:"bytes that others use, too"`
}

// Collection is what a collection takes away, or would.
type Collection struct {
	Releases []landfall.UID       `json:"releases" doc:"that expire"`
	Versions []landfall.GroupUnit `json:"versions" doc:"that are deleted"`
	Folders  int                  `json:"folders" doc:"of the object store"`
	Bytes    int64                `json:"bytes" doc:"in them"`
}

// File is one static file of an app version.
type File struct {
	Path   string          `json:"path" doc:"where it is served"`
	Unit   string          `json:"unit" doc:"the static unit that it belongs to"`
	Size   int64           `json:"size"`
	Type   string          `json:"type"`
	Digest landfall.Digest `json:"digest"`
	Stored landfall.UID    `json:"stored" doc:"the version that stored its bytes; later ones share them"`
}

// ChangedFile is one file that differs between two versions of a static unit or package.
type ChangedFile = landfall.ChangedFile

// Commit is one commit between two app versions.
type Commit struct {
	SHA     landfall.CommitSHA  `json:"commit"`
	Change  landfall.ChangeKind `json:"change" enum:"added,removed" doc:"removed: only the version before has it"`
	Message string              `json:"message" doc:"the first line"`
	Author  string              `json:"author"`
	Time    time.Time           `json:"time"`
}

// NamespacePlan is what the apps of a namespace may use together, and what they use.
type NamespacePlan struct {
	Namespace string         `json:"namespace"`
	Limits    landfall.Plan  `json:"limits"`
	Used      landfall.Usage `json:"used"`
}

// Move is one movement of a pointer.
type Move = landfall.Move

// Tracker is the ordered list of a unit's versions, in the shape of Fission's FunctionVersionTracker and
// PackageVersionTracker.
type Tracker struct {
	Kind     string       `json:"kind"`
	Metadata Metadata     `json:"metadata"`
	Spec     TrackerShape `json:"spec"`
}

// Metadata names an object.
type Metadata struct {
	Name        string          `json:"name"`
	Namespace   string          `json:"namespace,omitempty"`
	Version     string          `json:"resourceversion,omitempty"`
	Annotations map[string]bool `json:"annotations,omitempty"`
}

// TrackerShape is the spec of a Tracker.
type TrackerShape struct {
	Versions []landfall.UID `json:"versions"`
}

// GroupTracker is a group version in the shape of Fission's GroupVersionTracker.
type GroupTracker struct {
	Kind     string            `json:"kind"`
	Metadata Metadata          `json:"metadata"`
	Spec     GroupTrackerShape `json:"spec"`
}

// GroupTrackerShape is the spec of a GroupTracker.
type GroupTrackerShape struct {
	Git     Git           `json:"git"`
	Objects []GroupObject `json:"objects"`
}

// Git is where a group version came from.
type Git struct {
	Commit landfall.CommitSHA `json:"commit"`
	Branch string             `json:"branch"`
	Clean  string             `json:"clean" enum:"yes,no"`
}

// GroupObject is one unit version of a group version.
type GroupObject struct {
	Type    string       `json:"type"`
	Name    string       `json:"name"`
	Version landfall.UID `json:"version"`
}

// Trigger is a trigger of a live release.
type Trigger struct {
	Kind     landfall.UnitKind `json:"kind" enum:"http-trigger,time-trigger,queue-trigger"`
	Name     string            `json:"name"`
	Version  landfall.UID      `json:"version"`
	Function string            `json:"function" doc:"the function that it names, with the version if it is not the latest; several with their percentages; tag NAME for all functions of a function tag"`
	On       string            `json:"on" doc:"what fires it: methods and address (with /* for all below it), cron expression and time zone, or topic"`
	Access   string            `json:"access,omitempty" enum:"public,token,signed-in" doc:"of an http trigger: who may call it"`
	Next     *time.Time        `json:"next,omitempty" doc:"of a time trigger: when it is due next"`
	Last     *Firing           `json:"last,omitempty" doc:"of a time trigger: its last firing"`
}

// Firing is a time at which a time trigger was due, and what became of it.
type Firing struct {
	Due      time.Time  `json:"due"`
	Fired    time.Time  `json:"fired"`
	Finished *time.Time `json:"finished,omitempty" doc:"absent while it is not over"`
	State    string     `json:"state" enum:"running,waiting,succeeded,failed,skipped"`
	Attempt  int        `json:"attempt" doc:"more than 1 when a process died at it"`
	Problem  string     `json:"problem,omitempty"`
}

// Apply asks for a commit of the built-in remote to be applied.
type Apply struct {
	ID        string             `json:"id" doc:"the commit was pushed to refs/landfall/apply/ID"`
	Commit    landfall.CommitSHA `json:"commit" doc:"the commit that was pushed"`
	Base      landfall.CommitSHA `json:"base" doc:"the commit that the work tree stands on"`
	Branch    string             `json:"branch,omitempty" doc:"empty: production"`
	Clean     bool               `json:"clean"`
	NoRelease bool               `json:"no_release,omitempty"`
	DryRun    bool               `json:"dry_run,omitempty" doc:"only the diff is computed"`
}

// Applied is what an apply came to: a run, or for a dry run the diff.
type Applied struct {
	Run      *Run                 `json:"run,omitempty"`
	Changes  []Change             `json:"changes,omitempty"`
	Complete bool                 `json:"complete,omitempty" doc:"false: a build command makes files whose digests are not known before"`
	Files    *landfall.FileChange `json:"files,omitempty" doc:"when not complete: what changed in the commit as a whole"`
	Log      []string             `json:"log,omitempty"`
}

// Delivery is one webhook request as received.
type Delivery = landfall.Delivery

// Reached is what making a group version reachable came to.
type Reached struct {
	Release *Release `json:"release,omitempty"`
	Run     *Run     `json:"run,omitempty" doc:"set when something must be stored again first"`
}

// State is what was in force at a time or commit.
type State struct {
	GroupTracker
	At   time.Time    `json:"at" doc:"when it came into force"`
	Live landfall.UID `json:"live,omitempty" doc:"the release that visitors got at the time that was asked for"`
}

// StateAt returns what a person wrote of a time in a zone as the API takes it: a second or minute to its end, and a day
// from its begin. Everything else stays as it is.
func StateAt(written string, zone *time.Location) string {
	for layout, whole := range map[string]time.Duration{
		time.DateTime: time.Second, "2006-01-02 15:04": time.Minute, time.DateOnly: 0,
	} {
		if t, err := time.ParseInLocation(layout, written, zone); err == nil {
			return t.Add(max(whole-time.Nanosecond, 0)).Format(time.RFC3339Nano)
		}
	}
	return written
}

// FunctionName says which function is meant, and which version of it.
type FunctionName struct {
	Function string `json:"function,omitempty" example:"hello" doc:"NAME, NAME:VERSION or NAMESPACE/NAME:VERSION"`
	ID       string `json:"function_id,omitempty" example:"hello" doc:"in place of function, as Qinling calls it"`
	Number   int64  `json:"function_version,omitempty" minimum:"0" doc:"number of the version; 0: the one that function names, or the latest"`
}

// NewExecution asks for an execution.
type NewExecution struct {
	FunctionName

	Input json.RawMessage `json:"input,omitempty" doc:"data of the event that the function gets"`
	Sync  *bool           `json:"sync,omitempty" doc:"false: the answer does not wait until the execution is over"`
}

// CheckLine is one line of what a check says: a damage, or at the end how much was gone over, or why it was not.
type CheckLine struct {
	Finding *landfall.Finding `json:"finding,omitempty"`
	Done    *landfall.Checked `json:"done,omitempty"`
	Problem string            `json:"problem,omitempty"`
}

// Alias is a name for a version of a function, or for two with weights.
type Alias = landfall.Alias

// FunctionTag is a name for versions of several functions.
type FunctionTag = landfall.FunctionTag

// AliasMove is one move of an alias. From is empty when it was new, To when it was removed.
type AliasMove struct {
	From   string    `json:"from,omitempty"`
	To     string    `json:"to,omitempty"`
	Actor  string    `json:"actor"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// FunctionTagMove is one move of what a function tag names of a function.
type FunctionTagMove struct {
	AliasMove

	Function string `json:"function"`
}

// Stored is what became of a message that was published.
type Stored struct {
	Topic     string `json:"topic"`
	Sequence  uint64 `json:"sequence" doc:"the message's number in the app's queue"`
	Duplicate bool   `json:"duplicate,omitempty" doc:"a message of the same key was there before, and this one was not stored"`
}

// Message is one message of an app's queue.
type Message struct {
	Topic      string              `json:"topic"`
	Sequence   uint64              `json:"sequence" doc:"ascending, with gaps"`
	ID         string              `json:"id,omitempty" doc:"the key that it was published with"`
	Time       time.Time           `json:"time" doc:"when it was stored"`
	Headers    map[string][]string `json:"headers"`
	Data       string              `json:"data,omitempty" doc:"absent when it is no text"`
	DataBase64 []byte              `json:"data_base64,omitempty"`
}

// NewSecret is a value for a secret.
type NewSecret struct {
	Value     string `json:"value" doc:"text, at most 64 KiB; it is never shown again"`
	Preview   bool   `json:"preview,omitempty" doc:"it is for every branch but production"`
	Build     bool   `json:"build,omitempty" doc:"build commands get it, and no function; no release is made"`
	NoRelease bool   `json:"no_release,omitempty" doc:"the next release uses it, and none is made now"`
}

// Secret is a secret of an app, without its values.
type Secret struct {
	Name      string          `json:"name"`
	Variable  string          `json:"variable" doc:"the environment variable in which functions find it"`
	Functions []string        `json:"functions,omitempty" doc:"those of production that name it"`
	Versions  []SecretVersion `json:"versions" doc:"oldest first"`
}

// SecretVersion is a version of a secret, without its value.
type SecretVersion struct {
	Number    int64        `json:"number"`
	UID       landfall.UID `json:"uid"`
	Created   time.Time    `json:"created"`
	Actor     string       `json:"actor" doc:"who set it"`
	Preview   bool         `json:"preview,omitempty" doc:"it is for every branch but production"`
	Build     bool         `json:"build,omitempty" doc:"build commands get it, and no function"`
	Live      bool         `json:"live,omitempty" doc:"the live release has it"`
	Revoked   time.Time    `json:"revoked,omitzero"`
	RevokedBy string       `json:"revoked_by,omitempty"`
}

// SecretSet is what became of a value that was set.
type SecretSet struct {
	SecretVersion

	Name    string       `json:"name"`
	Made    bool         `json:"made" doc:"false: it had that value already"`
	Hidden  bool         `json:"hidden" doc:"false: it is too short to be taken out of logs"`
	Release landfall.UID `json:"release,omitempty" doc:"that has it; absent when none was made"`
	URL     string       `json:"url,omitempty" doc:"where that answers"`
	Note    string       `json:"note,omitempty"`
}

// Token is what is known of a bearer token: never its text.
type Token struct {
	Name      string         `json:"name"`
	Scope     landfall.Scope `json:"scope"`
	App       string         `json:"app,omitempty" doc:"the only app for which it is valid"`
	Namespace string         `json:"namespace,omitempty" doc:"it is valid for the apps of this namespace only"`
	Created   time.Time      `json:"created"`
	Expires   time.Time      `json:"expires,omitzero" doc:"absent: it stays valid until it is deleted"`
	Used      time.Time      `json:"used,omitzero" doc:"last use, to some minutes; absent: never"`
}

// NewToken asks for a token.
type NewToken struct {
	Name      string         `json:"name" example:"ci-shop"`
	Scope     landfall.Scope `json:"scope" enum:"read,invoke,deploy,admin" doc:"deploy includes read; admin includes all"`
	App       string         `json:"app,omitempty" minLength:"1" doc:"valid for this app only; without namespace too: for all"`
	Namespace string         `json:"namespace,omitempty" minLength:"1" doc:"valid for the apps of this namespace only"`
	Expires   landfall.Age   `json:"expires,omitempty" minLength:"1" doc:"such as 24h or 90d from now; without: never; never later than the token that makes it"`
}

// MadeToken is a token that was made, with its text.
type MadeToken struct {
	Token

	Text string `json:"token" doc:"what is sent as a bearer token; it is shown in this answer alone"`
	Note string `json:"note,omitempty" doc:"why it expires earlier than was asked for"`
}
