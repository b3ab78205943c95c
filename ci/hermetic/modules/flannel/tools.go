//go:build tools

// Package tools names the programs that ci/ builds from this module.
package tools

import (
	_ "github.com/flannel-io/flannel"
	_ "github.com/flannel-io/flannel/cmd/install_conf"
)
