/** Within this distance from its end, a list scrolls to what is added there. Pixels. */
const END_PX = 60;

/** Whether the end of a list that scrolls is visible. */
export const isEndVisible = ({ scrollHeight, scrollTop, clientHeight }: Element): boolean =>
  scrollHeight - scrollTop - clientHeight < END_PX;
