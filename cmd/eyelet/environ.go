package main

import "time"

// defaultDrain is how long serve waits for work that is under way when it is told to stop.
const defaultDrain = 30 * time.Second
