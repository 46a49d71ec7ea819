//go:build !race

package producer

// raceDetector is whether the tests run under the race detector.
const raceDetector = false
