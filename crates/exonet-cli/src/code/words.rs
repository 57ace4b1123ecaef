//! The words of codes: short, friendly and distinct, in alphabetical order.

/// The first word.
#[rustfmt::skip]
pub(super) const ADJECTIVES: [&str; 256] = [
    "able", "agile", "airy", "alert", "amber", "ample", "apt", "aqua", "avid", "awake", "azure", "balmy",
    "basic", "bold", "bonny", "brave", "brief", "brisk", "busy", "calm", "chief", "civil", "clean", "clear",
    "comfy", "coral", "cosy", "crisp", "curly", "cyan", "decent", "deep", "deft", "dewy", "direct",
    "dotted", "double", "dreamy", "driven", "dusky", "dusty", "eager", "early", "earthy", "easy", "elated",
    "elfin", "epic", "equal", "even", "exact", "fabled", "fair", "famous", "fancy", "fast", "fiery", "fine",
    "firm", "fit", "fleet", "floral", "fluent", "fluffy", "flying", "fond", "forest", "formal", "frank",
    "free", "fresh", "frosty", "funny", "fuzzy", "gentle", "giant", "giddy", "gifted", "glad", "global",
    "glossy", "golden", "good", "grand", "grassy", "great", "green", "handy", "happy", "hardy", "hasty",
    "hearty", "hidden", "honest", "humble", "icy", "ideal", "indigo", "inner", "ivory", "jaunty", "jazzy",
    "jolly", "jovial", "joyful", "jumbo", "keen", "kind", "lacy", "lavish", "leafy", "level", "light",
    "likely", "lilac", "little", "lively", "local", "lofty", "loyal", "lucid", "lucky", "lunar", "lush",
    "magic", "maple", "marble", "mellow", "merry", "mighty", "mild", "minty", "misty", "modern", "modest",
    "mossy", "muted", "native", "neat", "nifty", "nimble", "noble", "nordic", "novel", "oaken", "olive",
    "open", "orange", "outer", "oval", "pastel", "pearly", "peppy", "perky", "pink", "placid", "plain",
    "plucky", "plush", "polar", "polite", "posh", "prime", "prompt", "proud", "pure", "purple", "quaint",
    "quick", "quiet", "rapid", "rare", "ready", "real", "regal", "rested", "rosy", "round", "royal", "ruby",
    "rustic", "safe", "sandy", "satin", "serene", "sharp", "shiny", "silent", "silky", "silver", "simple",
    "sleek", "smart", "smooth", "snappy", "snowy", "snug", "social", "soft", "solar", "solid", "sonic",
    "speedy", "spicy", "spring", "square", "stable", "starry", "steady", "stout", "strong", "subtle",
    "sudden", "sugary", "summer", "sunny", "super", "supple", "sure", "swift", "tall", "tame", "tangy",
    "teal", "tender", "tidal", "tidy", "timely", "tiny", "topaz", "tough", "true", "trusty", "twin",
    "upbeat", "urban", "useful", "vast", "velvet", "violet", "vital", "vivid", "warm", "wavy", "whole",
    "wild", "windy", "winged", "winter", "wise", "witty", "woolly", "worthy", "young", "zany", "zesty",
];

/// The second word.
#[rustfmt::skip]
pub(super) const ANIMALS: [&str; 256] = [
    "adder", "alpaca", "anchovy", "angler", "avocet", "axolotl", "baboon", "badger", "bass", "bat", "bear",
    "beaver", "beetle", "bison", "bittern", "boar", "bobcat", "bonobo", "bream", "budgie", "buffalo",
    "bulldog", "bunny", "bustard", "buzzard", "camel", "canary", "caracal", "caribou", "carp", "catfish",
    "cheetah", "chicken", "cicada", "civet", "clam", "cobra", "cod", "collie", "condor", "corgi", "cougar",
    "coyote", "crab", "crane", "cricket", "crow", "cuckoo", "curlew", "deer", "dingo", "dolphin", "donkey",
    "dove", "duck", "dugong", "dunlin", "eagle", "echidna", "eel", "egret", "eider", "eland", "elk", "emu",
    "ermine", "falcon", "fawn", "ferret", "finch", "firefly", "foal", "fox", "frog", "gannet", "gazelle",
    "gecko", "gerbil", "gibbon", "giraffe", "goat", "goose", "gopher", "gorilla", "goshawk", "grebe",
    "grouse", "guanaco", "gull", "guppy", "haddock", "halibut", "hamster", "hare", "harrier", "hawk",
    "heron", "herring", "hippo", "horse", "hound", "husky", "hyena", "ibex", "ibis", "iguana", "impala",
    "jackal", "jackdaw", "jaguar", "jay", "kestrel", "kite", "kitten", "kiwi", "koala", "kudu", "lamb",
    "lamprey", "lapwing", "lark", "lemming", "lemur", "leopard", "limpet", "linnet", "lion", "lizard",
    "llama", "lobster", "loris", "lynx", "macaque", "macaw", "magpie", "mallard", "manatee", "manta",
    "mantis", "marlin", "marmot", "marten", "mastiff", "meerkat", "merlin", "mink", "minnow", "mole",
    "moose", "moth", "mouse", "mule", "mullet", "mussel", "narwhal", "newt", "ocelot", "octopus", "okapi",
    "opossum", "orca", "oriole", "osprey", "ostrich", "otter", "owl", "oyster", "panda", "panther",
    "parrot", "peacock", "pelican", "penguin", "perch", "petrel", "pigeon", "piglet", "pika", "pike",
    "pipit", "plover", "pony", "poodle", "possum", "prawn", "puffin", "puma", "puppy", "python", "quail",
    "quokka", "rabbit", "raccoon", "raven", "ray", "rhino", "robin", "rook", "rooster", "sable", "salmon",
    "sardine", "scallop", "seal", "serval", "shark", "sheep", "shrew", "shrimp", "skate", "skunk",
    "skylark", "sloth", "snail", "snipe", "spaniel", "sparrow", "sprat", "squid", "stoat", "stork",
    "swallow", "swan", "tapir", "tarsier", "tench", "tern", "terrier", "tiger", "toad", "toucan", "trout",
    "tuna", "turbot", "turkey", "turtle", "urchin", "viper", "vole", "vulture", "wagtail", "wallaby",
    "walrus", "warbler", "weasel", "whale", "whelk", "whippet", "wigeon", "wolf", "wombat", "woodcock",
    "wren", "yak", "zander", "zebra",
];
