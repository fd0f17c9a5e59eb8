/** Plugins run on this Node: wall L2 is made of its switches. */
export const NODE_MAJOR = 26;

/** Whether this process runs on it, or on a later one. */
export const isPluginNode = (): boolean => Number.parseInt(process.versions.node, 10) >= NODE_MAJOR;
