package secret

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"landfall.dev/landfall"
)

// These secrets of builds are more than variables: each is a file in which a tool looks for passwords.
const (
	NPMConfig = "NPM_RC" // ~/.npmrc
	NetRC     = "NETRC"  // ~/.netrc, whose path is in the variable
	// DockerConfig is for registries of images, in the form of ~/.docker/config.json; builds do not get it.
	DockerConfig = "DOCKER_AUTH_CONFIG"
)

// reserved are variables that a build gets from the sandbox, or that decide which programs it runs.
var reserved = regexp.MustCompile(
	`^(PATH|HOME|TMPDIR|LANG|SRC_PKG|DEPLOY_PKG|IFS|ENV|BASH_ENV|LD_.*|HTTPS?_PROXY|NO_PROXY|NODE_USE_ENV_PROXY)$`)

// CheckBuild returns an Invalid error, which does not show the value, unless a secret of builds can have the name and
// the value. It refuses a value that looks like other text, because such a value cannot be found in the output of a
// build.
func CheckBuild(name string, value Text) error {
	refuse := func(format string, args ...any) error {
		return &landfall.Error{Op: "secret.CheckBuild", Kind: landfall.Invalid, Message: fmt.Sprintf(format, args...)}
	}
	if reserved.MatchString(strings.ToUpper(Variable(name))) {
		return refuse("%s cannot be the name of a secret of builds, which have a variable of that name already; right "+
			"would be, for example, NPM_TOKEN", name)
	}
	if len(value) < Shortest {
		return refuse("the value has %d bytes, and a secret of builds at least %d: a shorter one cannot be found in what "+
			"a build prints and makes",
			len(value), Shortest)
	}
	if name == DockerConfig {
		if _, err := Logins(value); err != nil {
			return err
		}
	}
	return nil
}

// Login is what a registry of images gets for authentication.
type Login struct {
	User     string
	Password Text
	Token    Text // in place of both: an identity token
}

// Logins reads the passwords of registries by their hosts, from the text of a config.json of Docker.
func Logins(config Text) (map[string]Login, error) {
	var read struct {
		Auths map[string]struct {
			Auth          string `json:"auth"`
			Username      string `json:"username"`
			Password      string `json:"password"`
			IdentityToken string `json:"identitytoken"`
		} `json:"auths"`
	}
	wrong := &landfall.Error{Op: "secret.Logins", Kind: landfall.Invalid, Message: DockerConfig +
		` is not the text of a config.json of Docker with passwords in it; right would be {"auths": {"HOST": {"auth": "USER:PASSWORD in base64"}}}`}
	if err := json.Unmarshal([]byte(config.Reveal()), &read); err != nil || len(read.Auths) == 0 {
		return nil, wrong // the cause may show a part of the value
	}
	logins := map[string]Login{}
	for key, a := range read.Auths {
		l := Login{User: a.Username, Password: Text(a.Password), Token: Text(a.IdentityToken)}
		if a.Auth != "" {
			plain, err := base64.StdEncoding.DecodeString(a.Auth)
			user, password, ok := strings.Cut(string(plain), ":")
			if err != nil || !ok {
				return nil, wrong
			}
			l.User, l.Password = user, Text(strings.TrimRight(password, "\x00"))
		}
		if _, host, ok := strings.Cut(key, "://"); ok {
			key = host
		}
		key, _, _ = strings.Cut(key, "/")
		if key == "docker.io" {
			key = "index.docker.io" // the form in which references to it are read
		}
		logins[strings.ToLower(key)] = l
	}
	return logins, nil
}

// inURL finds the password in an address, and inFile finds passwords in files of npm and of netrc. A variable in such a
// file is no password.
var (
	inURL    = regexp.MustCompile(`://[^/@\s:]*:([^/@\s]+)@`)
	variable = regexp.MustCompile(`^\$\{\w+\}$`)
	inFile   = regexp.MustCompile(`(?m)(?:^|[\s:])(?:_authToken|_auth|_password|password)(?:\s*=\s*|\s+)"?([^\s"]+)"?`)
)

// Passwords returns what must be hidden of build secrets, under their names: their values, and the passwords in them,
// which a tool may show alone. For a tool's file it returns only the passwords, because its other lines are also in
// other texts.
func Passwords(values map[string]Text) map[string]Text {
	all := map[string]Text{}
	for name, value := range values {
		found := passwordsIn(value)
		plain, _, _ := strings.Cut(name, ":") // without the number of a version
		whole := len(found) == 0 || !slices.Contains([]string{NPMConfig, NetRC, DockerConfig}, plain)
		for i, password := range found {
			all[fmt.Sprintf("%s, password %d", name, i+1)] = Text(password)
			whole = whole || len(password) < Shortest
		}
		if whole {
			all[name] = value
		}
	}
	return all
}

func passwordsIn(value Text) (found []string) {
	for _, match := range inURL.FindAllStringSubmatch(value.Reveal(), -1) {
		found = append(found, match[1])
		if plain, err := url.PathUnescape(match[1]); err == nil && plain != match[1] {
			found = append(found, plain)
		}
	}
	for _, match := range inFile.FindAllStringSubmatch(value.Reveal(), -1) {
		if variable.MatchString(match[1]) {
			continue
		}
		found = append(found, match[1])
		plain, err := base64.StdEncoding.DecodeString(match[1]) // npm encodes them
		if _, password, ok := strings.Cut(string(plain), ":"); err == nil && ok {
			found = append(found, password)
		} else if err == nil && strings.Contains(match[0], "_password") {
			found = append(found, string(plain))
		}
	}
	if logins, err := Logins(value); err == nil {
		for _, host := range slices.Sorted(maps.Keys(logins)) {
			for _, password := range []Text{logins[host].Password, logins[host].Token} {
				if password != "" {
					found = append(found, password.Reveal())
				}
			}
		}
	}
	return found
}
