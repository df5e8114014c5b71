package landfall

import (
	"encoding/json"
	"time"
)

// ExecutionState says how far an execution is.
type ExecutionState string

// The states.
const (
	ExecutionQueued    ExecutionState = "queued" // accepted, and waits for a process that runs it
	ExecutionRunning   ExecutionState = "running"
	ExecutionSucceeded ExecutionState = "succeeded"
	ExecutionFailed    ExecutionState = "failed"
)

// Final reports whether an execution in the state is over.
func (s ExecutionState) Final() bool { return s == ExecutionSucceeded || s == ExecutionFailed }

// Execution is the record of one run of one version of a function. It does not contain the function's input.
type Execution struct {
	ID        string         `json:"id"`
	AppID     string         `json:"-"` // of the app that owns the function; empty for one made by hand
	App       string         `json:"app,omitempty" doc:"name of the app that owns the function"`
	Namespace string         `json:"namespace"`
	Function  string         `json:"function"`
	Version   UID            `json:"version" doc:"uid of the function's version"`
	Number    int64          `json:"function_version" doc:"number of the function's version"`
	Group     UID            `json:"-"` // the group version whose configuration it has
	Release   UID            `json:"release,omitempty" doc:"the release that it was run for, if it was for one"`
	Trigger   string         `json:"trigger,omitempty" doc:"the trigger that it came through, if it did"`
	Event     ExecutionEvent `json:"event"`
	State     ExecutionState `json:"state" enum:"queued,running,succeeded,failed"`
	Async     bool           `json:"async" doc:"whether it was accepted before it ran"`
	Attempt   int64          `json:"attempts,omitempty" doc:"of one that was accepted: how often it was begun"`
	Retries   int64          `json:"retries,omitempty" doc:"of one that was accepted: how often it is tried again when it fails"`
	Earlier   int64          `json:"-"` // attempts before it was sent again
	Next      time.Time      `json:"next_attempt,omitzero" doc:"of one that failed and waits: when it is tried again"`
	Dead      bool           `json:"dead,omitempty" doc:"a dead letter: it was accepted, failed in its last attempt, and can be sent again"`
	Sent      time.Time      `json:"sent_again,omitzero" doc:"when it was sent again"`
	Reason    string         `json:"reason,omitempty" doc:"why it failed: busy, timeout, exit, memory, protocol, too-large, canceled, lost, or a type of error"`
	Message   string         `json:"message,omitempty"`
	Created   time.Time      `json:"created"`
	Started   time.Time      `json:"started,omitzero"`
	Finished  time.Time      `json:"finished,omitzero"`
	Duration  float64        `json:"duration_ms" doc:"milliseconds from start to end; 0 until it is over"`
	Input     int64          `json:"input_bytes" doc:"of the event's data"`
	Output    int64          `json:"output_bytes" doc:"of the answer's data"`
	Log       int64          `json:"log_bytes"`
	LogGone   bool           `json:"log_removed,omitempty" doc:"the log was removed before the record, or was too much to be kept"`

	Result json.RawMessage `json:"result,omitempty" doc:"the event that it answered, of one that was accepted; where one is shown"`
}

// ExecutionEvent names the event that an execution answers.
type ExecutionEvent struct {
	Source string `json:"source"`
	Type   string `json:"type"`
	ID     string `json:"id"`
}

// ExecutionLog is a piece of the log of an execution: whole lines, unless the function wrote none.
type ExecutionLog struct {
	Seq       int64     `json:"seq" doc:"ascends over all executions"`
	Execution string    `json:"execution"`
	Time      time.Time `json:"time"`
	Text      string    `json:"text"`
}
