package landfall

import "time"

// Deployment is what the forge shows of a pointer: which release live, or a branch's tag, points to.
type Deployment struct {
	Owed

	App        string
	Pointer    string // as in a Move; with the app, it identifies the deployment
	Repository int64  // the id of the repository that has it; 0 while there is none
	ID         int64  // given by the forge; 0 while there is none
	Release    UID    // of which ID is
	Told       bool   // the forge shows ID as active
	Replaced   int64  // an older one that must be set inactive; 0: none

	Report DeploymentReport // set when the forge is about to be told
}

// DeploymentReport is what the forge is to show of a pointer.
type DeploymentReport struct {
	Repository  GitHubRepository
	AppName     string
	Release     UID // empty: the pointer is gone, or nobody is to look at it any more
	Commit      CommitSHA
	Branch      string // the branch whose head is Commit; empty when there is none
	Environment string
	Production  bool   // the environment is what visitors see; otherwise it ends some day
	URL         string // where the release answers
	Run         string // address of the run that made it
}

// Feature is something that may not be allowed at a repository of the forge, and that everything else does without.
type Feature string

// The features.
const (
	DeploymentsFeature Feature = "deployments"
	ChecksFeature      Feature = "checks"
)

// Refusal says what we may not do at a repository of the forge.
type Refusal struct {
	Feature Feature
	Problem string    // a sentence that says what is missing
	Until   time.Time // when it is tried again
}
