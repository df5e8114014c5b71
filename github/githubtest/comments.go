package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Self is the user to whom the server's token belongs.
const Self int64 = 583231

func userResources() map[string]func(*Server, call) reply {
	return map[string]func(*Server, call) reply{
		"/user": func(*Server, call) reply { return say(http.StatusOK, userObject(Self, true)) },
	}
}

func commentResources() map[string]func(*Server, call) reply {
	return map[string]func(*Server, call) reply{
		"/repos/{owner}/{repo}/issues/{issue_number}/comments": (*Server).serveComments,
		"/repos/{owner}/{repo}/issues/comments/{comment_id}":   (*Server).serveComments,
	}
}

// maxComment is how many characters of a comment GitHub accepts.
const maxComment = 65536

// Comment is one comment on a pull request.
type Comment struct {
	Repository string // owner/name
	Number     int    // of the pull request
	ID         int64
	Author     int64 // Self for what came by the API, Bot for what the App wrote
	Body       string
	Edits      int // how often it was edited
}

// Comments returns the comments on a pull request, oldest first.
func (s *Server) Comments(repository string, number int) []Comment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.comments), func(c Comment) bool {
		return c.Repository != repository || c.Number != number
	})
}

// Comment adds a comment of a user, and returns its ID.
func (s *Server) Comment(repository string, number int, author int64, body string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(Comment{Repository: repository, Number: number, Author: author, Body: body}).ID
}

// DeleteComment deletes a comment, as a user may do by hand.
func (s *Server) DeleteComment(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.comments = slices.DeleteFunc(s.comments, func(c Comment) bool { return c.ID == id })
}

func (s *Server) add(c Comment) Comment {
	s.issued++
	c.ID = 1_000_000 + s.issued
	s.comments = append(s.comments, c)
	return c
}

// serveComments lists, makes, shows, edits or deletes comments.
func (s *Server) serveComments(c call) reply {
	repository, one := c.repository, c.PathParams["comment_id"] != ""
	if !one && c.Route.Method == http.MethodGet {
		return s.listComments(c)
	}
	var sent struct {
		Body string `json:"body"`
	}
	if c.Route.Method == http.MethodPost || c.Route.Method == http.MethodPatch {
		if err := json.NewDecoder(c.Request.Body).Decode(&sent); err != nil {
			return refuse(http.StatusBadRequest, "Problems parsing JSON")
		}
		if sent.Body == "" || utf8.RuneCountInString(sent.Body) > maxComment {
			return refuse(http.StatusUnprocessableEntity, "Validation Failed: body is too long (maximum is 65536 characters)")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !one {
		number, _ := strconv.Atoi(c.PathParams["issue_number"])
		return say(http.StatusCreated,
			commentObject(s.add(Comment{Repository: repository, Number: number, Author: s.author(c), Body: sent.Body})))
	}
	id, _ := strconv.ParseInt(c.PathParams["comment_id"], 10, 64)
	i := slices.IndexFunc(s.comments, func(c Comment) bool { return c.ID == id && c.Repository == repository })
	switch {
	case i < 0:
		return refuse(http.StatusNotFound, "Not Found")
	case c.Route.Method == http.MethodDelete:
		s.comments = slices.Delete(s.comments, i, i+1)
		return reply{status: http.StatusNoContent}
	case c.Route.Method == http.MethodPatch && s.comments[i].Author != s.author(c):
		return refuse(http.StatusForbidden, "Must have admin rights to Repository.")
	case c.Route.Method == http.MethodPatch:
		s.comments[i].Body = sent.Body
		s.comments[i].Edits++
	}
	return say(http.StatusOK, commentObject(s.comments[i]))
}

// listComments answers with one page, oldest first.
func (s *Server) listComments(c call) reply {
	number, _ := strconv.Atoi(c.PathParams["issue_number"])
	list := []map[string]any{}
	for _, comment := range s.Comments(c.repository, number) {
		list = append(list, commentObject(comment))
	}
	return s.page(c, list)
}

// page answers with one page of a list, and says where the next one is.
func (s *Server) page(c call, all []map[string]any) reply {
	page, header := s.pageOf(c, all)
	got := say(http.StatusOK, page)
	got.header = header
	return got
}

// commentObject returns a comment as GitHub shows it.
func commentObject(c Comment) map[string]any {
	base := "https://api.github.com/repos/" + c.Repository
	at := time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC).Format(time.RFC3339)
	return map[string]any{
		"id": c.ID, "node_id": fmt.Sprintf("IC_%d", c.ID), "url": fmt.Sprintf("%s/issues/comments/%d", base, c.ID),
		"html_url":  fmt.Sprintf("https://github.com/%s/pull/%d#issuecomment-%d", c.Repository, c.Number, c.ID),
		"issue_url": fmt.Sprintf("%s/issues/%d", base, c.Number), "body": c.Body, "user": userObject(c.Author, false),
		"created_at": at, "updated_at": at, "author_association": "MEMBER",
	}
}

// userObject returns a user as GitHub shows it; all of it when whole is true.
func userObject(id int64, whole bool) map[string]any {
	login := Login(id)
	url := "https://api.github.com/users/" + login
	o := map[string]any{
		"login": login, "id": id, "node_id": fmt.Sprintf("U_%d", id),
		"avatar_url": "https://avatars.githubusercontent.com/u/1", "gravatar_id": "", "html_url": "https://github.com/" +
			login, "type": "User", "site_admin": false, "url": url, "user_view_type": "public",
	}
	for _, list := range []string{
		"events", "followers", "following", "gists", "organizations", "received_events", "repos", "starred", "subscriptions",
	} {
		o[list+"_url"] = url + "/" + list
	}
	if whole {
		for _, field := range []string{"bio", "blog", "company", "email", "hireable", "location", "name"} {
			o[field] = nil
		}
		o["blog"] = ""
		for _, field := range []string{"followers", "following", "public_gists", "public_repos"} {
			o[field] = 1
		}
		o["created_at"], o["updated_at"] = "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"
	}
	return o
}

// EditComment changes a comment, as somebody with write access may do by hand.
func (s *Server) EditComment(id int64, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.comments {
		if s.comments[i].ID == id {
			s.comments[i].Body = body
		}
	}
}
