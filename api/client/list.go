package client

import (
	"context"
	"maps"
	"net/http"
	"net/url"
)

// List returns all items of the list at path, following its pages. path and query are as for Do, without a cursor.
func List[T any](ctx context.Context, c *Client, path string, query url.Values) ([]T, error) {
	all := []T{}
	next := url.Values{}
	maps.Copy(next, query)
	for {
		var page struct {
			Items []T    `json:"items"`
			Next  string `json:"next"`
		}
		if err := c.Do(ctx, http.MethodGet, path+"?"+next.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" || len(page.Items) == 0 {
			return all, nil
		}
		next.Set("cursor", page.Next)
	}
}
