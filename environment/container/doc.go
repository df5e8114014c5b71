// Package container unpacks container images: an OCI image layout or a docker archive in a package becomes the folder
// that its processes see as their root.
//
// Images come from strangers. Nothing of an image is written outside the folder, whatever its names are. Its processes
// run as one user who cannot change any file, so owners, devices and special modes have no effect; what works only with
// them is refused.
package container
