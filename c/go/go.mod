module exonet

go 1.21
