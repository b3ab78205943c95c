module hermetic/pause

go 1.26.0
