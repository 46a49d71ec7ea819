package main

import "github.com/spf13/cobra"

func (p *program) devCommand() *cobra.Command { return &cobra.Command{Use: "dev"} }
