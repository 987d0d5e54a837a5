package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
)

// BinaryEnv is the environment variable with the redis-server to run, instead of one in PATH.
const BinaryEnv = "PENSTOCK_REDIS_SERVER"

// ErrNoRedis is returned if this machine has no usable redis-server. Its text says how to get one.
var ErrNoRedis = errors.New("redistest: no usable redis-server")

// minMajor is the first major version with script flags (#!lua flags=...), which Penstock's scripts begin with.
const minMajor = 7

// Binary finds redis-server and checks that it is recent enough.
func Binary(ctx context.Context) (string, error) {
	path := os.Getenv(BinaryEnv)
	if path == "" {
		path = "redis-server"
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w\n%s", ErrNoRedis, err, howToInstall())
	}
	out, err := exec.CommandContext(ctx, found, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s --version: %w\n%s", ErrNoRedis, found, err, howToInstall())
	}
	if major := majorVersion(string(out)); major < minMajor {
		return "", fmt.Errorf("%w: %s is version %d, Penstock needs %d or later\n%s",
			ErrNoRedis, found, major, minMajor, howToInstall())
	}
	return found, nil
}

var versionField = regexp.MustCompile(`\bv=(\d+)\.`)

// majorVersion parses "Redis server v=7.0.15 sha=..." (Valkey prints the same). It returns 0 if it cannot.
func majorVersion(banner string) int {
	m := versionField.FindStringSubmatch(banner)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return n
}

func howToInstall() string {
	command := "sudo apt-get update && sudo apt-get install -y redis-server"
	if runtime.GOOS == "darwin" {
		command = "brew install redis"
	}
	return "install it with:\n    " + command + "\nor let scripts/redis.sh do it, or point " + BinaryEnv +
		" at a redis-server you have"
}
