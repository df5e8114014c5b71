package client

import (
	"encoding/json"
	"time"

	"landfall.dev/landfall"
)

// NewJob asks for a job. What it says of time is RFC 3339, or that without a zone: then it is UTC.
type NewJob struct {
	FunctionName

	Name    string          `json:"name,omitempty" maxLength:"100"`
	Input   json.RawMessage `json:"function_input,omitempty" doc:"data of the events that the function gets"`
	Pattern string          `json:"pattern,omitempty" example:"0 3 * * *" doc:"cron expression, in UTC unless it begins with TZ=ZONE; absent: the job runs once"`
	First   string          `json:"first_execution_time,omitempty" example:"2030-01-02T03:04:05Z" doc:"the first run; absent: when the pattern says"`
	Count   int64           `json:"count,omitempty" minimum:"0" doc:"how often a job with a pattern runs; 0: without end"`
}

// JobChange is what changes of a job; what is absent stays.
type JobChange struct {
	Name    *string         `json:"name,omitempty" maxLength:"100"`
	Input   json.RawMessage `json:"function_input,omitempty"`
	Pattern string          `json:"pattern,omitempty"`
	Next    string          `json:"next_execution_time,omitempty"`
	Status  string          `json:"status,omitempty" enum:"running,paused,cancelled"`
}

// Used is what jobs and webhooks have alike.
type Used struct {
	ID        string    `json:"id"`
	Function  string    `json:"function_id" doc:"name of the function"`
	Namespace string    `json:"namespace"`
	Number    int64     `json:"function_version" doc:"number of the version; 0: the latest"`
	Created   time.Time `json:"created_at"`
	Updated   time.Time `json:"updated_at"`
}

// Job has a function run at times.
type Job struct {
	Used

	Name    string            `json:"name,omitempty"`
	Input   json.RawMessage   `json:"function_input,omitempty"`
	Pattern string            `json:"pattern,omitempty"`
	First   time.Time         `json:"first_execution_time,omitzero"`
	Next    time.Time         `json:"next_execution_time,omitzero"`
	Count   int64             `json:"count,omitempty" doc:"runs that are left; absent: without end, or none when it is done"`
	Status  landfall.JobState `json:"status" enum:"running,paused,done,cancelled"`
	Problem string            `json:"problem,omitempty" doc:"why the last run could not be started"`
}

// NewWebhook asks for a webhook of a function.
type NewWebhook struct {
	FunctionName

	Description string `json:"description,omitempty" maxLength:"1000"`
}

// WebhookChange is what changes of a webhook; what is absent stays.
type WebhookChange struct {
	Number      *int64  `json:"function_version,omitempty" minimum:"0"`
	Description *string `json:"description,omitempty" maxLength:"1000"`
}

// Webhook is an address by which whoever knows it calls a function.
type Webhook struct {
	Used

	Description string `json:"description,omitempty"`
	URL         string `json:"webhook_url"`
}
