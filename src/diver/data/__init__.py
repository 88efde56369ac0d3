"""Problems: where they come from, how they become prompts, and the testbeds."""
