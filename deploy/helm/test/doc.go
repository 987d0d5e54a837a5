// Package test has the tests of the Helm chart in ../penstock, and of the manifests in ../../kubernetes that are
// rendered from it.
//
// It is a module of its own, so that Helm and the API types of Kubernetes are not dependencies of Penstock.
//
// Each file in values/ is an installation. Its objects are rendered by Helm's own engine and decoded strictly into the
// published types. Then the checks of checks_test.go look at them. broken_test.go breaks the objects, to see that each
// check can fail.
package test
