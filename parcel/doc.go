// Package parcel carries a release from one installation to another, as one file: the tar of an OCI image layout. Its
// one manifest has the Document as configuration, and each stored file and archive as a layer of its own, by digest.
//
// A Parcel is checked as a whole before anything of it is stored. What it says of digests is never believed: units get
// the digests that their content has here. Secrets are not in it; their names are.
package parcel
