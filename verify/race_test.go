//go:build race

package verify

// raceDetector reports whether the tests run under the race detector.
const raceDetector = true
