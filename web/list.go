package web

import (
	"fmt"
	"net/url"
)

// listed is one page of a list of the API.
type listed[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
}

// items reads the first page of a list.
func items[T any](r *request, path string) ([]T, error) {
	p, err := list[T](r, path)
	return p.Items, err
}

// everything reads all pages of a list.
func everything[T any](r *request, path string) (all []T, err error) {
	for cursor, more := "", true; more; {
		p, err := list[T](r, path+"?"+query("limit", 1000, "cursor", cursor))
		if err != nil {
			return nil, err
		}
		all, cursor, more = append(all, p.Items...), p.Next, p.Next != ""
	}
	return all, nil
}

func list[T any](r *request, path string) (listed[T], error) {
	var p listed[T]
	err := r.get(path, &p)
	return p, err
}

// query is a query of names and values in turn; an empty value is left out.
func query(pairs ...any) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if value := fmt.Sprint(pairs[i+1]); value != "" {
			q.Set(fmt.Sprint(pairs[i]), value)
		}
	}
	return q.Encode()
}
