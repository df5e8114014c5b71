package githubtest

func pullResources() map[string]func(*Server, call) reply {
	return map[string]func(*Server, call) reply{
		"/repos/{owner}/{repo}/commits/{commit_sha}/pulls": (*Server).pullsOfCommit,
	}
}

// Pull makes a pull request of a repository, or changes the one with its number. It is as GitHub shows it, and as the
// payloads of its deliveries have it.
func (s *Server) Pull(repository string, pull map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pulls == nil {
		s.pulls = map[string][]map[string]any{}
	}
	for i, other := range s.pulls[repository] {
		if other["number"] == pull["number"] {
			s.pulls[repository][i] = pull
			return
		}
	}
	s.pulls[repository] = append(s.pulls[repository], pull)
}

// PullQuestions returns of how many commits the pull requests were asked for.
func (s *Server) PullQuestions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pullQuestions
}

// pullsOfCommit answers with the pull requests whose head or merge is a commit.
func (s *Server) pullsOfCommit(c call) reply {
	s.mu.Lock()
	s.pullQuestions++
	found := []map[string]any{}
	for _, pull := range s.pulls[c.repository] {
		head, _ := pull["head"].(map[string]any)
		if head["sha"] == c.PathParams["commit_sha"] || pull["merge_commit_sha"] == c.PathParams["commit_sha"] {
			found = append(found, pull)
		}
	}
	s.mu.Unlock()
	return s.page(c, found)
}
