//go:build tools

// Package tools names the programs that ci/hermetic builds from this module.
package tools

import (
	_ "go.universe.tf/metallb/controller"
	_ "go.universe.tf/metallb/speaker"
)
