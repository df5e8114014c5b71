// Greets who asks: GET /hello?name=Ada
package main

import (
	"fmt"
	"net/http"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if name == "" {
		name = "world"
	}
	fmt.Println("greeting", name)
	fmt.Fprintf(w, "Hello, %s!\n", name)
}
