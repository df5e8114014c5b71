package client

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strconv"
)

// List returns all items of the list at path, following its pages. path and query are as for Do, without a cursor.
func List[T any](ctx context.Context, c *Client, path string, query url.Values) ([]T, error) {
	return First[T](ctx, c, path, query, 0)
}

// First is List of no more than the first items; of all for a limit of 0.
func First[T any](ctx context.Context, c *Client, path string, query url.Values, limit int) ([]T, error) {
	const most = 1000 // of a page
	all := []T{}
	next := url.Values{}
	maps.Copy(next, query)
	for {
		if left := limit - len(all); limit > 0 {
			next.Set("limit", strconv.Itoa(min(left, most)))
		}
		var page struct {
			Items []T    `json:"items"`
			Next  string `json:"next"`
		}
		if err := c.Do(ctx, http.MethodGet, path+"?"+next.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" || len(page.Items) == 0 || (limit > 0 && len(all) >= limit) {
			return all, nil
		}
		next.Set("cursor", page.Next)
	}
}
