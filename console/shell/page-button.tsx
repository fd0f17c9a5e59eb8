/** A link to a page of the console that looks like a button. */
import { Button, type ButtonProps } from '@mantine/core';
import { createLink } from '@tanstack/react-router';
import type { ComponentPropsWithRef } from 'react';

type Props = ButtonProps & Omit<ComponentPropsWithRef<'a'>, keyof ButtonProps>;

export const PageButton = createLink((props: Props) => <Button component="a" {...props} />);
