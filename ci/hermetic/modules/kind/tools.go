//go:build tools

// Package tools names the programs that ci/hermetic builds from this module.
package tools

import (
	_ "sigs.k8s.io/kind"
)
