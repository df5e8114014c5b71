package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// Reaction is a user's reaction to a comment.
type Reaction struct {
	Comment int64
	Author  int64
	Content string // "+1", "confused", …
}

func reactionResources() map[string]func(*Server, call) reply {
	return map[string]func(*Server, call) reply{
		"/repos/{owner}/{repo}/issues/comments/{comment_id}/reactions": (*Server).serveReactions,
	}
}

// Reactions returns the reactions to a comment, oldest first.
func (s *Server) Reactions(comment int64) []Reaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.reactions), func(r Reaction) bool { return r.Comment != comment })
}

// serveReactions lists or makes reactions. A second equal one of a user changes nothing.
func (s *Server) serveReactions(c call) reply {
	comment, _ := strconv.ParseInt(c.PathParams["comment_id"], 10, 64)
	if c.Route.Method == http.MethodGet {
		list := []map[string]any{}
		for i, r := range s.Reactions(comment) {
			list = append(list, reactionObject(i, r))
		}
		return say(http.StatusOK, list)
	}
	made := Reaction{Comment: comment, Author: s.author(c)}
	var sent struct {
		Content string `json:"content"`
	}
	if err := json.NewDecoder(c.Request.Body).Decode(&sent); err != nil {
		return refuse(http.StatusBadRequest, "Problems parsing JSON")
	}
	made.Content = sent.Content
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.comments, func(at Comment) bool {
		return at.ID == comment && at.Repository == c.repository
	}) {
		return refuse(http.StatusNotFound, "Not Found")
	}
	if i := slices.Index(s.reactions, made); i >= 0 {
		return say(http.StatusOK, reactionObject(i, made))
	}
	s.reactions = append(s.reactions, made)
	return say(http.StatusCreated, reactionObject(len(s.reactions)-1, made))
}

func reactionObject(index int, r Reaction) map[string]any {
	return map[string]any{
		"id": index + 1, "node_id": fmt.Sprintf("REA_%d", index+1), "user": userObject(r.Author, false), "content": r.Content,
		"created_at": "2026-11-20T15:00:00Z",
	}
}
