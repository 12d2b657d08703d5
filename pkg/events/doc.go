// Package events reads, writes and projects the events of agents: protocol v1.
package events
