package history_test

import (
	"slices"
	"strconv"
	"strings"

	"landfall.dev/landfall"
)

// latest is the number that "latest" means for a unit; 0: none.
func (s *state) latest(id landfall.UnitID) int64 {
	u := s.units[id]
	if u == nil || u.retired || len(s.applied) == 0 || s.groups[s.applied[len(s.applied)-1]].units[id] == 0 {
		return 0
	}
	for _, uid := range slices.Backward(s.applied) {
		number := s.groups[uid].units[id]
		if v, ok := u.versions[number]; ok && !v.retired {
			return number
		}
	}
	return 0
}

// find is the number of a function that a selector means; 0: none.
func (s *state) find(id landfall.UnitID, selector string) int64 {
	u := s.units[id]
	if u == nil {
		return 0
	}
	number, err := strconv.ParseInt(selector, 10, 64)
	switch a, named := u.aliases[selector]; {
	case selector == landfall.Latest:
		return s.latest(id)
	case err == nil:
	case named:
		number = a.first
	default:
		for n, v := range u.versions {
			if v.label == selector || string(v.uid) == selector {
				number = max(number, n)
			}
		}
	}
	if _, ok := u.versions[number]; !ok {
		return 0
	}
	return number
}

// runnable reports whether a version of a function is there, with its package.
func (s *state) runnable(id landfall.UnitID, number int64) bool {
	v, there := s.unitVersion(id, number)
	if !there {
		return false
	}
	_, whole := s.unitVersion(pkg(), v.pkg)
	return whole
}

// leads reports whether a trigger of an accessible release names a version of f by its number.
func (s *state) leads(number int64) bool {
	for uid := range s.releases {
		at, ok := s.groups[uid].units[route()]
		if !ok || !s.accessible(uid) {
			continue
		}
		word := s.words[digestOf{route(), s.units[route()].versions[at].of}]
		word, _, _ = strings.Cut(word, " ")
		if word == strconv.FormatInt(number, 10) {
			return true
		}
	}
	return false
}
