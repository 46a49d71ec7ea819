//go:build race

package verify

// raceDetector is whether the tests run under the race detector.
const raceDetector = true
