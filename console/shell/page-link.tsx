/** A link to a page of the console, in the look of every link, with the router's types. */
import { Anchor, type AnchorProps } from '@mantine/core';
import { createLink } from '@tanstack/react-router';
import type { ComponentPropsWithRef } from 'react';

type Props = AnchorProps & Omit<ComponentPropsWithRef<'a'>, keyof AnchorProps>;

export const PageLink = createLink((props: Props) => <Anchor {...props} />);
