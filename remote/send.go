package remote

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"

	"landfall.dev/landfall"
)

var gitProtocol = regexp.MustCompile(`^version=\d$`)

// advertise answers with the list of references.
func (s *Server) advertise(w http.ResponseWriter, r *http.Request, repository Repository, service string) error {
	out, err := s.begin(w, "application/x-"+service+"-advertisement")
	if err != nil {
		return err
	}
	heading := "# service=" + service + "\n"
	heading = fmt.Sprintf("%04x%s%s", packetHead+len(heading), heading, flush)
	return s.pipe(out, heading, r, repository, s.Repositories.git(r.Context(), strings.TrimPrefix(service, "git-"),
		"--stateless-rpc", "--advertise-refs", s.Repositories.Path(repository.App)))
}

// send answers a fetch.
func (s *Server) send(w http.ResponseWriter, r *http.Request, repository Repository) error {
	const most = 64 << 20 // what a client wants and has, one line a commit
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	out, err := s.begin(w, "application/x-"+uploadPack+"-result")
	if err != nil {
		return err
	}
	cmd := s.Repositories.git(r.Context(), "upload-pack", "--stateless-rpc", s.Repositories.Path(repository.App))
	cmd.Stdin = io.LimitReader(body, most)
	return s.pipe(out, "", r, repository, cmd)
}

// pipe sends heading and what cmd writes, in the protocol that r asks for.
func (s *Server) pipe(out *stream, heading string, r *http.Request, repository Repository, cmd *exec.Cmd) error {
	leave, err := enter(r.Context(), s.sending)
	if err != nil {
		return err
	}
	defer leave()
	defer out.end()
	if version := r.Header.Get("Git-Protocol"); gitProtocol.MatchString(version) {
		cmd.Env = append(cmd.Env, "GIT_PROTOCOL="+version)
	}
	var stderr complaint
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return &landfall.Error{Op: "remote.pipe", Err: err}
	}
	if err := cmd.Start(); err != nil {
		return failed(r.Context(), "remote.pipe", err, "")
	}
	if _, err = out.Write([]byte(heading)); err == nil {
		_, err = io.Copy(out, stdout)
	}
	if err != nil { // the client has gone
		_ = cmd.Cancel()
	}
	if err := cmd.Wait(); err != nil && r.Context().Err() == nil {
		s.loggerOf(repository).DebugContext(r.Context(), "git ended badly", "path", r.URL.Path, "error", err, "stderr",
			stderr.String())
	}
	return nil
}
