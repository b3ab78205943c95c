//go:build tools

// Package tools names the programs that ci/ builds from this module.
package tools

import _ "github.com/containernetworking/plugins/plugins/main/bridge"
