/** Limits of channel queues. Also read by parts that do not use the database. */

/** Channel queues of an installation that are worked on at once, so that slow handlers of one plugin leave the workers to others. */
export const CHANNEL_QUEUES_PER_INSTALLATION = 4;
