// Package images gives versions of functions out as container images, by the pull side of the OCI distribution
// specification: whatever pulls from a registry pulls NAMESPACE/NAME:VERSION from here.
//
// An image is made when it is first asked for, of what the runner runs. The same version gives the same bytes every
// time and on every server: files have no times and no owners, and layers are not compressed, because what a compressor
// writes differs from one release of it to the next. So nothing has to be stored but the functions themselves. What was
// made is kept in a folder of bounded size, and a server that was not asked before finds out which version a digest is
// of by making the images again.
package images
