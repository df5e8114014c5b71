package client

import "time"

// GitHub is how an installation speaks to GitHub.
type GitHub struct {
	App           *GitHubApp           `json:"app,omitempty" doc:"the GitHub App that is connected; absent: none is"`
	Installations []GitHubInstallation `json:"installations" nullable:"false" doc:"where the App is installed"`
	Problems      []GitHubProblem      `json:"problems" nullable:"false" doc:"what hinders the App"`
	Token         bool                 `json:"token" doc:"whether the server has a plain token, which is used while no App is connected"`
}

// GitHubApp is the GitHub App of an installation.
type GitHubApp struct {
	ID      int64     `json:"id"`
	Slug    string    `json:"slug" doc:"its name in addresses"`
	Name    string    `json:"name"`
	Owner   string    `json:"owner" doc:"the account that it belongs to"`
	URL     string    `json:"url" doc:"its page at GitHub"`
	Install string    `json:"install_url" doc:"where it is installed on repositories"`
	Created time.Time `json:"created"`
}

// GitHubInstallation is the App on an account.
type GitHubInstallation struct {
	ID           int64     `json:"id"`
	Account      string    `json:"account"`
	Repositories string    `json:"repositories" enum:"all,selected"`
	URL          string    `json:"url" doc:"where it is changed at GitHub"`
	Suspended    time.Time `json:"suspended,omitzero" doc:"since when; absent: it is not"`
	Missing      []string  `json:"missing" nullable:"false" doc:"a sentence for each permission that it lacks"`
}

// GitHubProblem is what hinders the App.
type GitHubProblem struct {
	Repository string    `json:"repository,omitempty" doc:"owner/name; absent: everywhere"`
	Problem    string    `json:"problem"`
	Since      time.Time `json:"since,omitzero"`
}

// GitHubRepositories are those that the installations of the App see.
type GitHubRepositories struct {
	Items    []GitHubRepository `json:"items" nullable:"false" doc:"by name, at most as many as asked for"`
	Found    int                `json:"found" doc:"how many fit the filter"`
	More     bool               `json:"more" doc:"whether the App sees more repositories than were looked through"`
	Problems []string           `json:"problems" nullable:"false" doc:"a sentence for each installation whose repositories are missing"`
}

// GitHubRepository is one that an installation of the App sees.
type GitHubRepository struct {
	ID       int64    `json:"id"`
	Name     string   `json:"name" doc:"owner/name"`
	Private  bool     `json:"private"`
	Archived bool     `json:"archived"`
	Apps     []string `json:"apps" nullable:"false" doc:"the apps whose repository it is"`
}

// NewGitHubConnection asks for the connection with a GitHub App that is still to be made.
type NewGitHubConnection struct {
	Organization string `json:"organization,omitempty" doc:"that will own the App; absent: the account of who makes it"`
	Name         string `json:"name,omitempty" doc:"of the App; absent: after this server's host" maxLength:"34"`
}

// GitHubConnection is a GitHub App that somebody is about to make.
type GitHubConnection struct {
	ID       string   `json:"id"`
	State    string   `json:"state" enum:"waiting,connected,failed,expired"`
	URL      string   `json:"url" doc:"the page that a person opens"`
	Note     string   `json:"note,omitempty" doc:"what is to be known before"`
	Problem  string   `json:"problem,omitempty" doc:"why it failed"`
	Action   string   `json:"action,omitempty" doc:"where the page sends the manifest, while it waits"`
	Manifest string   `json:"manifest,omitempty" doc:"what it sends"`
	Asks     []string `json:"asks" nullable:"false" doc:"the permissions that the App asks for"`
}

// MadeGitHubApp is what GitHub sends back with who made an App.
type MadeGitHubApp struct {
	State string `json:"state" minLength:"1"`
	Code  string `json:"code" minLength:"1"`
}
