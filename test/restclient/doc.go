// Package restclient is a client of the REST API that is generated from its OpenAPI document, as others would make one,
// with the operations of the story that its tests tell.
package restclient

//go:generate go run ../../tools/openapi -3.0 ../../build/openapi-3.0.json
//go:generate ../../build/bin/oapi-codegen -config oapi-codegen.yaml ../../build/openapi-3.0.json
